//! Estimates compared with links of known properties.

use results::estimate::{EstimateResult, Quantity, RateInterval};
use results::lab::{LabRecord, Verdict};
use testbed::{undecided, undisturbed};

use crate::common::lab::{Turn, read, turn};
use crate::common::text;
use crate::{records, results};

/// Probes the far end of an emulated path; `None`, with a note, if the emulation was not valid.
fn over(turn: &Turn, path: &[&str], arguments: &str) -> Option<Vec<EstimateResult>> {
    let line = format!("{} estimate $LONGHAUL_PEER --json {arguments}", env!("CARGO_BIN_EXE_longhaul"));
    let truth = tempfile::NamedTempFile::new().unwrap();
    let truth_path = truth.path().display().to_string();
    let all = [&["lab", "path", "--quiet", "--json", &truth_path], path, &["--", &line]].concat();
    let output = turn.longhaul(&all).output().unwrap();
    println!("{}{}", text(&output.stdout), text(&output.stderr));
    let verdict = read(truth.path()).into_iter().find_map(|r| match r {
        LabRecord::RunEnd(end) => Some(end.verdict),
        _ => None,
    });
    if let Some(Verdict::Invalid { reasons }) = verdict {
        undecided(&reasons.join("; "));
        return None;
    }
    Some(results(&records(&output.stdout)))
}

fn rate_of(result: &EstimateResult, quantity: Quantity) -> RateInterval {
    *result.estimate.iter().chain(&result.other_estimates).find(|t| t.quantity == quantity).unwrap()
}

#[test]
fn the_capacity_of_an_idle_path_is_found_in_both_directions() {
    undisturbed(|| {
        let Some(turn) = turn() else { return };
        // The methods are judged in the simulator; here the hosts' clocks and timestamps are, at a rate whose packets
        // last 1.2 ms.
        let (rate, bps) = ("10Mb/s", 10e6);
        for direction in ["", "--reverse"] {
            let path = ["--rate", rate, "--rtt", "20ms"];
            let Some(all) = over(&turn, &path, &format!("{direction} -m two-rates -m pathrate")) else { continue };
            for result in &all {
                // A packet of 1500 bytes occupies 1538 on the emulated Ethernet. The project's goal is 5 %.
                let capacity = rate_of(result, Quantity::Capacity).rate_bps as f64;
                assert!((capacity / (bps * 1500.0 / 1538.0) - 1.0).abs() < 0.05, "{rate} {direction}: {result:?}");
            }
            let available = rate_of(&all[0], Quantity::AvailableBandwidth).rate_bps as f64;
            assert!((available / (bps * 1500.0 / 1538.0) - 1.0).abs() < 0.15, "{rate} {direction}: {:?}", all[0]);
        }
    });
}

#[test]
fn round_trips_and_losses_of_small_probes_are_those_of_the_path() {
    undisturbed(|| {
        let Some(turn) = turn() else { return };
        let Some(all) = over(&turn, &["--rtt", "40ms", "--loss", "10%"], "-m loss") else { return };
        let result = all[0].clone();
        let loss = result.loss.unwrap();
        assert_eq!(loss.sent, 100);
        // Each direction loses one in ten: 19 of 100 do not return, with a standard deviation of 3.9; tolerance four of
        // them.
        assert!((4..=34).contains(&loss.lost), "{result:?}");
        // 1/(40 ms sqrt(2p/3)) packets of 1500 bytes: between the two ends of that range 1.84 and 0.63 Mb/s.
        let rate = result.estimate.unwrap().rate_bps;
        assert!((600_000..=1_900_000).contains(&rate), "{result:?}");
    });
}

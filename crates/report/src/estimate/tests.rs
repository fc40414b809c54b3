//! Output of synthetic squeezed pairs of a path of 100 Mb/s.

use results::estimate::{
    Caveat, EstimateRecord, EstimateResult, GapHistogram, Layer, Quantity, RateBound, RateInterval, Similarity,
    SqueezedPairsResult,
};

use super::gaps::drawings;
use super::{EstimateText, write_estimate_html};

/// A bin is the transmission time of 24 bytes at 100 Mb/s.
const BIN_NS: u64 = 1_920;

fn histogram(sent_gap_ns: u64, pairs_at_us: &[(u64, u64)]) -> GapHistogram {
    let mut counts = vec![0; 250];
    for (us, pairs) in pairs_at_us {
        counts[(us * 1000 / BIN_NS) as usize] += pairs;
    }
    GapHistogram { sent_gap_ns, bin_ns: BIN_NS, counts, above_range: 0 }
}

/// 500 bytes take 40 us and 1500 bytes 120 us; the gap of the sent pairs is half of that.
fn pairs() -> SqueezedPairsResult {
    let (short, long) = (histogram(20_000, &[(20, 400), (43, 100), (100, 3)]), histogram(60_000, &[(60, 500)]));
    SqueezedPairsResult { label: Some(Similarity::TightUnlikeNarrow), score: -420, short, long }
}

fn records(squeezed: SqueezedPairsResult) -> Vec<EstimateRecord> {
    let result = EstimateResult {
        method: "squeezed-pairs".to_owned(),
        faithful: false,
        congestion_control: None,
        quantity: Quantity::AvailableBandwidth,
        layer: Layer::Ip,
        estimate: None,
        other_estimates: Vec::new(),
        loss: None,
        queue_ns: None,
        squeezed: Some(squeezed),
        packets: 2006,
        bytes: 80_240,
        elapsed_ns: 2_100_000_000,
        caveats: vec![Caveat::Reordering],
        error: Some("<b>gone".to_owned()),
    };
    vec![EstimateRecord::Estimate(result)]
}

fn text(records: &[EstimateRecord]) -> String {
    let mut out = Vec::new();
    let mut text = EstimateText::default();
    records.iter().for_each(|r| text.write(r, &mut out).unwrap());
    String::from_utf8(out).unwrap()
}

#[test]
fn marks_follow_the_rate_of_the_bottleneck_link() {
    let pairs = pairs();
    let all = drawings(&pairs);
    let marks = |n: usize| all[n].marks.iter().map(|m| (m.name, m.at_ns)).collect::<Vec<_>>();
    // 40, 40 + 500 and 40 + 1500 bytes at 100 Mb/s.
    assert_eq!(marks(0), [("b2b", 3_200), ("sent", 20_000), ("500B", 43_200), ("1500B", 123_200)]);
    assert_eq!(marks(1), [("b2b", 3_200), ("500B", 43_200), ("sent", 60_000), ("1500B", 123_200)]);
    // 71 bins correspond to 1700 bytes.
    assert_eq!((all[0].end_ns(), all[0].pairs()), (136_320, 503));
}

#[test]
fn a_histogram_of_characters_has_its_peak_above_its_mark() {
    let text = text(&records(pairs()));
    let lines: Vec<&str> = text.lines().collect();
    let foot = lines.iter().position(|l| l.contains("^b2b")).unwrap();
    let column = lines[foot].find("^sent").unwrap();
    let at = |up: usize, column: usize| lines[foot - up].chars().nth(column);
    let peak = lines[foot - 5].find('#').unwrap();
    assert_eq!(column, peak, "{text}");
    // 400 pairs fill five rows; 100 fill one and a quarter; 3 fill less than half of one.
    assert_eq!((1..=5).filter(|up| at(*up, peak) == Some('#')).count(), 5);
    let side = lines[foot - 1].rfind('#').unwrap();
    assert!(side > peak && at(2, side).is_none_or(|c| c == ' '), "{text}");
    assert_eq!(lines[foot - 1].chars().filter(|c| *c == '.').count(), 1, "{text}");
    assert!(text.contains("label: tight unlike narrow (score -420)") && text.contains("503 pairs sent 20.0 us apart"));
    assert!(lines.iter().all(|l| l.chars().count() <= 110), "{text}");
}

#[test]
fn pairs_without_a_capacity_have_no_drawing() {
    let nothing = SqueezedPairsResult { label: None, score: 0, short: histogram(0, &[]), long: histogram(0, &[]) };
    assert!(drawings(&nothing).is_empty());
    assert!(text(&records(nothing)).contains("label: unknown"));
}

#[test]
fn the_page_has_both_histograms_and_escapes_texts_of_records() {
    let mut out = Vec::new();
    write_estimate_html(&mut out, &records(pairs()), "<i>title").unwrap();
    let html = String::from_utf8(out).unwrap();
    assert!(
        html.contains("Squeezed pairs: tight unlike narrow") && !html.contains("<i>title") && !html.contains("<b>gone")
    );
    assert!(html.contains("packets were reordered; aborted: &lt;b&gt;gone"));
    // 136 us correspond to 71 bins.
    let marks = r#""marks":[{"name":"b2b","at_ns":3200},{"name":"sent","at_ns":20000}"#;
    assert_eq!(
        (html.matches(r#""bin_ns":1920,"end_ns":136320,"counts":["#).count(), html.matches(marks).count()),
        (2, 1)
    );
}

#[test]
fn an_axis_reaches_the_last_pair() {
    let mut pairs = pairs();
    pairs.long.counts[249] = 1;
    pairs.long.above_range = 2;
    assert_eq!(drawings(&pairs)[1].end_ns(), 250 * BIN_NS);
    assert!(text(&records(pairs)).contains("2 further apart"));
}

#[test]
fn a_bound_is_written_as_a_bound() {
    let bounded = |bound, rate_bps| RateInterval {
        quantity: Quantity::AvailableBandwidth,
        rate_bps,
        low_bps: 0,
        high_bps: rate_bps,
        bound,
    };
    let mut all = records(pairs());
    let Some(EstimateRecord::Estimate(result)) = all.first_mut() else { panic!("{all:?}") };
    result.estimate = Some(bounded(Some(RateBound::AtMost), 48_760_000));
    result.other_estimates = vec![bounded(Some(RateBound::AtLeast), 458_600_000)];
    let text = text(&all);
    assert!(text.contains(" at most 48.76 Mb/s ") && text.contains(" at least 458.6 Mb/s"), "{text}");
    assert!(!text.contains("0 b/s and"), "{text}");
    let mut out = Vec::new();
    write_estimate_html(&mut out, &all, "title").unwrap();
    assert!(String::from_utf8(out).unwrap().contains("at most 48.76 Mb/s"));
}

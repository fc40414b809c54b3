//! The page of `--report`.

use crate::common::{Serve, text};
use crate::{estimate, records, results};

#[test]
fn the_page_has_a_row_for_each_method_and_the_histograms_of_the_records() {
    let server = Serve::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let methods = ["-m", "short-adr", "-m", "squeezed-pairs", "--budget", "200kB", "--json"];
    let output = estimate(server.port, &[&methods[..], &["--report", page.to_str().unwrap()]].concat());
    let results = results(&records(&output.stdout));
    let html = std::fs::read_to_string(&page).unwrap();
    for result in &results {
        assert!(html.contains(&format!("<th>{}</th>", result.method)), "{}", result.method);
    }
    let squeezed = results[1].squeezed.as_ref().unwrap();
    let drawn: Vec<Vec<u64>> = html.split("\"counts\":[").skip(1).map(numbers).collect();
    assert_eq!(drawn.len(), 2, "{}", text(&output.stderr));
    for (drawn, histogram) in drawn.iter().zip([&squeezed.short, &squeezed.long]) {
        let (within, past) = histogram.counts.split_at(drawn.len());
        assert_eq!(drawn, within);
        assert_eq!(past.iter().sum::<u64>(), 0, "the axis ends behind the last pair");
    }
    let others: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(others.len(), 1, "nothing else is left: {others:?}");
}

/// The numbers of a JSON list, up to its end.
fn numbers(list: &str) -> Vec<u64> {
    list.split(']').next().unwrap().split(',').map(|n| n.parse().unwrap()).collect()
}

//! Time axes of the strips and bars that need no script.

use super::markup::Html;

/// Round values from 0 to at most `max`, some `count` of them.
pub(crate) fn ticks(max: f64, count: u32) -> Vec<f64> {
    if !(max.is_finite() && max > 0.0) {
        return Vec::new();
    }
    let raw = max / f64::from(count.max(1));
    let magnitude = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * magnitude).find(|s| *s >= raw).unwrap_or(raw);
    // Bounds the number of ticks independently of rounding.
    (0..=2 * count).map(|i| f64::from(i) * step).take_while(|t| *t <= max * 1.000_001).collect()
}

/// A line of seconds from 0 to `max_s`.
pub(crate) fn time_axis(h: &mut Html, max_s: f64) {
    h.raw("<div class=\"axis\" aria-hidden=\"true\">");
    let all = ticks(max_s, 8);
    for t in &all {
        // A label at the end would exceed the page.
        if *t > max_s * 0.97 {
            continue;
        }
        h.raw("<span style=\"left:").number(t / max_s * 100.0).raw("%\">").text(format_args!("{t}")).raw("</span>");
    }
    h.raw("<span class=\"unit\">s</span></div>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(30.0, 8), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(ticks(95.0, 4), [0.0, 25.0, 50.0, 75.0]);
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(ticks(odd, 8).is_empty());
        }
        assert!(ticks(f64::MAX, 8).len() <= 17);
    }
}

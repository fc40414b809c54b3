//! A text chart of values over time.

/// Rows of the plot.
const ROWS: usize = 8;

/// Number of columns of the plot; with the scale it fits a line of 110.
const COLUMNS: usize = 90;

/// Minimum number of values for a chart.
const VALUES_MIN: usize = 3;

/// Rows from the top: `o` for values, `|` for the start of a level. The axis ranges from zero to the largest value.
/// `None` for too few values, or if all have one time.
pub(super) fn rows(points: &[(f64, f64)], shifts: &[f64]) -> Option<Vec<String>> {
    let times = || points.iter().map(|(at, _)| *at);
    let (first, last) = (times().fold(f64::INFINITY, f64::min), times().fold(f64::NEG_INFINITY, f64::max));
    let top = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let is_drawn = points.len() >= VALUES_MIN && last > first && top > 0.0 && (last - first + top).is_finite();
    if !is_drawn {
        return None;
    }
    let place = |share: f64, places: usize| ((share * (places - 1) as f64).round() as usize).min(places - 1);
    let column = |at: f64| place(((at - first) / (last - first)).clamp(0.0, 1.0), COLUMNS);
    let mut cells = vec![[' '; COLUMNS]; ROWS];
    for at in shifts.iter().filter(|at| (first..=last).contains(at)) {
        cells.iter_mut().for_each(|row| row[column(*at)] = '|');
    }
    for (at, value) in points {
        let from_top = ROWS - 1 - place((value / top).clamp(0.0, 1.0), ROWS);
        cells[from_top][column(*at)] = 'o';
    }
    Some(cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_is_at_the_top_and_time_increases_to_the_right() {
        let rows = rows(&[(0.0, 100.0), (10.0, 50.0), (20.0, 0.0)], &[10.0, 30.0]).unwrap();
        assert_eq!(rows.len(), ROWS);
        let column = |row: usize, c: char| rows[row].find(c);
        // Half of 89 columns and of 7 rows, rounded up.
        assert_eq!((column(0, 'o'), column(3, 'o'), column(7, 'o')), (Some(0), Some(45), Some(89)));
        assert_eq!((column(0, '|'), column(7, '|')), (Some(45), Some(45)));
    }

    #[test]
    fn values_without_extent_are_not_drawn() {
        assert_eq!(rows(&[], &[]), None);
        assert_eq!(rows(&[(0.0, 1.0), (1.0, 1.0)], &[]), None);
        assert_eq!(rows(&[(5.0, 1.0); 9], &[]), None);
        assert_eq!(rows(&[(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)], &[]), None);
        assert_eq!(rows(&[(0.0, 1.0), (1.0, f64::INFINITY), (2.0, 0.0)], &[]), None);
        assert_eq!(rows(&[(0.0, 1.0), (f64::NAN, 2.0), (2.0, 0.0)], &[]).map(|r| r.len()), Some(ROWS));
    }
}

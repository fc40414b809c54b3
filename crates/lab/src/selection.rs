//! Selection of an experiment's runs: points of its sweep, and shards that several processes make.

use std::collections::BTreeSet;
use std::str::FromStr;

/// Number of a run's repetition and of its point of the sweep, both from 0. Runs are made in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Repetition.
    pub repetition: u32,
    /// Point of the sweep.
    pub point: u32,
}

/// One of `count` shards of the runs: those at the places `index`, `index + count`, ... of their order, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    count: u32,
}

impl FromStr for Shard {
    type Err = String;

    /// Reads `I/N` with 1 <= I <= N.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(i, n)| Some((i.trim().parse().ok()?, n.trim().parse().ok()?)));
        match numbers {
            Some((index, count)) if 1 <= index && index <= count => Ok(Self { index, count }),
            Some((index, count)) => {
                Err(format!("shard {index} of {count} does not exist; shards are 1/{count} to {count}/{count}"))
            }
            None => Err(format!("`{text}` is not I/N, such as 2/8")),
        }
    }
}

/// The runs of an experiment that are to be made.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Points of the sweep, by number; `None`: all.
    pub points: Option<BTreeSet<u32>>,
    /// Shard of the runs of these points; `None`: all.
    pub shard: Option<Shard>,
}

impl Selection {
    /// The selected runs of an experiment, in order.
    pub fn places(&self, points: u32, repetitions: u32) -> Vec<Place> {
        let all = (0..repetitions).flat_map(|repetition| (0..points).map(move |point| Place { repetition, point }));
        let of_points = all.filter(|place| self.points.as_ref().is_none_or(|p| p.contains(&place.point)));
        match self.shard {
            None => of_points.collect(),
            Some(Shard { index, count }) => of_points.skip(index as usize - 1).step_by(count as usize).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_divide_the_runs_without_overlap() {
        for (points, repetitions, count) in [(4, 2, 3), (1, 5, 2), (27, 5, 8), (2, 1, 5)] {
            let all = Selection::default().places(points, repetitions);
            assert_eq!(all.len() as u32, points * repetitions);
            let shard = |index| Selection { points: None, shard: format!("{index}/{count}").parse().ok() };
            let mut parts: Vec<Place> = (1..=count).flat_map(|i| shard(i).places(points, repetitions)).collect();
            let sizes = (1..=count).map(|i| shard(i).places(points, repetitions).len());
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
            parts.sort_unstable();
            assert_eq!(parts, all);
        }
    }

    #[test]
    fn a_shard_divides_the_selected_points() {
        let points = Some([1, 3].into());
        let selection = Selection { points, shard: Some("2/2".parse().unwrap()) };
        let places: Vec<_> = selection.places(4, 2).iter().map(|p| (p.repetition, p.point)).collect();
        assert_eq!(places, [(0, 3), (1, 3)]);
    }

    #[test]
    fn a_shard_that_does_not_exist_is_refused() {
        for text in ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
        assert!("3/2".parse::<Shard>().unwrap_err().contains("1/2 to 2/2"));
    }
}

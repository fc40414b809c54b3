//! Who is not let in, or does not let this member in, and why: what is wrong is in somebody's settings, and silence does not tell in whose.

use std::collections::VecDeque;
use std::time::Duration;

use units::Instant;

use super::{Core, Event, Output};

/// The same is told once in so long.
const AGAIN: Duration = Duration::from_secs(60);
/// Maximum number of different rejections reported in that time: unauthenticated senders can invent them.
const MOST: usize = 16;

/// What was told of late.
#[derive(Default)]
pub(super) struct Rejections(VecDeque<(Instant, String)>);

impl Rejections {
    fn is_news(&mut self, now: Instant, what: String) -> bool {
        while self.0.pop_front_if(|(at, _)| now.saturating_since(*at) >= AGAIN).is_some() {}
        let is_news = self.0.len() < MOST && !self.0.iter().any(|(_, told)| *told == what);
        if is_news {
            self.0.push_back((now, what));
        }
        is_news
    }
}

impl Core {
    /// `from`: a member, or an address.
    pub(super) fn report_rejection(&mut self, now: Instant, from: String, why: String) {
        if self.refused.is_news(now, format!("{from}: {why}")) {
            self.outputs.push_back(Output::Event(Event::PeerRejected { from, why }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_a_minute_and_strangers_cannot_make_up_more_than_some() {
        let mut refused = Rejections::default();
        let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
        let told = (0..120).filter(|s| refused.is_news(at(*s), "same".to_owned())).count();
        assert_eq!(told, 2);
        let told = (0..1000).filter(|n| refused.is_news(at(200), n.to_string())).count();
        assert_eq!(told, 16);
    }
}

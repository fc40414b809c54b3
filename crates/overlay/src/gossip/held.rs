//! What has been heard of whom, to be passed on.

use std::collections::BTreeMap;
use std::time::Duration;

use route::Member;
use units::Instant;

use super::REFRESH;
use super::message::Known;
use super::said::{Said, Subject, What};

/// What was not said, or said to hold, for so long is not passed on: who speaks says so each [`REFRESH`], so that its speaker is gone.
pub(super) const FORGET: Duration = Duration::from_secs(10);
/// Two clocks differ by less than this.
const DRIFT: f64 = 0.0005;

/// What members said, the last word of each about each subject.
#[derive(Default)]
pub(super) struct Held(BTreeMap<Member, Speaker>);

struct Speaker {
    start: u64,
    words: BTreeMap<Subject, Word>,
    /// When it last said something new.
    heard: Instant,
    /// Its quickest word so far: when that came, and by how much our clock was ahead of the speaker's, ms.
    quickest: Option<(Instant, f64)>,
    /// What it said last of all its links, until that has been looked at; and when it was.
    alive: Option<Alive>,
    confirmed: Option<Instant>,
}

/// That a speaker's words about links that are up hold, as of one of its words.
#[derive(Clone, Copy)]
struct Alive {
    number: u64,
    at_ms: u64,
    links: u32,
    sum: u64,
}

struct Word {
    number: u64,
    bytes: Vec<u8>,
    /// It says of a link that it is up.
    is_up: bool,
    /// Number of the word before it about the same link, if that said so.
    before: Option<u64>,
    /// Or said to hold.
    heard: Instant,
}

impl Word {
    /// The last word not after `number` about this link, if it said that it is up: what the speaker meant then.
    fn as_of(&self, number: u64) -> Option<u64> {
        if self.number <= number { Some(self.number).filter(|_| self.is_up) } else { self.before }
    }
}

impl Speaker {
    /// What is still passed on. A certificate lasts as long as who speaks; a link may go, and the word that it did be lost.
    fn current(&self, now: Instant) -> impl Iterator<Item = &Word> {
        let current = move |(subject, word): &(&Subject, &Word)| {
            let heard = match subject {
                Subject::Link(_) | Subject::Alive => word.heard,
                Subject::Certificate(_) => self.heard,
            };
            now.saturating_since(heard) < FORGET
        };
        self.words.iter().filter(current).map(|(_, word)| word)
    }

    /// Whether what it says of all its links is of the words that are held: none is missing, one that it is down no less.
    fn agrees(&self, alive: &Alive) -> bool {
        let meant = || self.words.values().filter_map(|w| w.as_of(alive.number));
        let sum = meant().fold(0, |sum: u64, number| sum.wrapping_add(number));
        (meant().count() as u64, sum) == (alive.links.into(), alive.sum)
    }

    /// How much longer ago it was said than the quickest word took.
    fn age(&mut self, now: Instant, at_ms: u64) -> Duration {
        let ahead = now.as_nanos() as f64 / 1e6 - at_ms as f64;
        // Rises slowly, so that it follows a clock that is slower than ours.
        let risen = |(at, least): (Instant, f64)| least + now.saturating_since(at).as_secs_f64() * 1e3 * DRIFT;
        let least = self.quickest.map_or(ahead, |q| risen(q).min(ahead));
        self.quickest = Some((now, least));
        Duration::try_from_secs_f64((ahead - least) / 1e3).unwrap_or(Duration::MAX)
    }
}

impl Held {
    /// Whether a word is not yet known, nor one that takes its place.
    pub(super) fn is_news(&self, said: &Said) -> bool {
        let Some(speaker) = self.0.get(&said.by) else { return true };
        match speaker.start.cmp(&said.start) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => speaker.words.get(&said.subject()).is_none_or(|w| w.number < said.number),
            std::cmp::Ordering::Greater => false,
        }
    }

    /// Keeps a word that is news, and at most `most` of its speaker; says how old it is.
    pub(super) fn keep(&mut self, now: Instant, said: &Said, bytes: &[u8], most: usize) -> Duration {
        let new = || Speaker {
            start: said.start,
            words: BTreeMap::new(),
            heard: now,
            quickest: None,
            alive: None,
            confirmed: None,
        };
        let speaker = self.0.entry(said.by).or_insert_with(new);
        if speaker.start != said.start {
            *speaker = new();
        }
        let subject = said.subject();
        if speaker.words.len() >= most && !speaker.words.contains_key(&subject) {
            let oldest = speaker.words.iter().min_by_key(|(_, w)| (w.heard, w.number)).map(|(s, _)| *s);
            oldest.map(|s| speaker.words.remove(&s));
        }
        speaker.heard = now;
        let before = speaker.words.get(&subject).filter(|w| w.is_up).map(|w| w.number);
        let is_up = matches!(said.what, What::Link { claim: Some(_), .. });
        let word = Word { number: said.number, bytes: bytes.to_vec(), is_up, before, heard: now };
        speaker.words.insert(subject, word);
        if let What::Alive { links, sum } = said.what {
            speaker.alive = Some(Alive { number: said.number, at_ms: said.at_ms, links, sum });
        }
        speaker.age(now, said.at_ms)
    }

    /// What a member said of its links and now says to hold, and how long ago it did; nothing where words are missing, until they have come. Nobody is heard on that more than
    /// twice in a [`REFRESH`].
    pub(super) fn confirm(&mut self, now: Instant, by: Member) -> Vec<(Said, Duration)> {
        let Some(speaker) = self.0.get_mut(&by) else { return Vec::new() };
        let is_early = speaker.confirmed.is_some_and(|at| now.saturating_since(at) < REFRESH / 2);
        let Some(alive) = speaker.alive.filter(|a| !is_early && speaker.agrees(a)) else { return Vec::new() };
        (speaker.alive, speaker.confirmed) = (None, Some(now));
        let age = speaker.age(now, alive.at_ms);
        let mut all = Vec::new();
        for word in speaker.words.values_mut().filter(|w| w.is_up && w.number <= alive.number) {
            word.heard = now;
            all.extend(Said::read(&word.bytes).map(|said| (said, age)));
        }
        all
    }

    /// Forgets who is no member any more.
    pub(super) fn retain(&mut self, is_member: impl Fn(Member) -> bool) {
        self.0.retain(|m, _| is_member(*m));
    }

    /// What is known of a member.
    pub(super) fn known(&self, now: Instant, of: Member) -> Known {
        let none = Known { of, newest: 0, sum: 0 };
        let Some(speaker) = self.0.get(&of) else { return none };
        speaker.current(now).fold(none, |k, w| Known {
            newest: k.newest.max(w.number),
            sum: k.sum.wrapping_add(w.number),
            ..k
        })
    }

    /// What somebody with this digest does not know, about `most` bytes of it; `turn`: any number, another one each time, so that nothing has to
    /// wait for ever behind something else.
    pub(super) fn news(&self, now: Instant, digest: &[Known], turn: usize, most: usize) -> Vec<&[u8]> {
        let (before, after) = digest.split_at(turn % digest.len().max(1));
        let mut found = Vec::new();
        let mut bytes = 0;
        for theirs in after.iter().chain(before) {
            let Some(speaker) = self.0.get(&theirs.of) else { continue };
            let ours = self.known(now, theirs.of);
            // Who knows the last word, but not all of them: whatever there is.
            let has_gaps = ours.newest == theirs.newest && ours.sum != theirs.sum;
            let is_new = |w: &&Word| has_gaps || w.number > theirs.newest;
            let mut words: Vec<&Word> = speaker.current(now).filter(is_new).collect();
            words.sort_by_key(|w| w.number);
            if has_gaps {
                let turned = turn % words.len().max(1);
                words.rotate_left(turned);
            }
            for word in words {
                bytes += word.bytes.len();
                if bytes > most {
                    return found;
                }
                found.push(&word.bytes[..]);
            }
        }
        found
    }

    /// How many words are held.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.values().map(|s| s.words.len()).sum()
    }
}

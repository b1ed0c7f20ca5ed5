//! The messages that a client sends for a segment: the tape, or a launch of a template with its
//! bindings.
//!
//! A segment is first compared, entry by entry and without a hash, with the segment that followed
//! its predecessor the last time. If they differ, it is looked up by its key. A new segment is sent
//! as a tape. A segment that is seen a second time becomes a template, and from then on only its
//! bindings are sent. A segment that differs from one that came again in the attributes of its ops
//! only, such as that of another batch, is a template at once, whose launches wait for its plan, as
//! long as such sizes do come again. So is a segment in the scope of a signal with `compile`. The
//! numbers of templates and keys are limited, and the least recently used are dropped. Templates
//! that differ only in source locations are different, so that errors name the user's line. Workers
//! share their plan.

use std::collections::HashMap;
use std::sync::Arc;

use gt_ir::Tape;
use gt_ir::backend::SegmentStats;
use gt_ir::canonical::{
    Bindings, Canonicalizer, Difference, Key, Matcher, Template, canonical, explain,
};
use gt_ir::lru::Lru;
use gt_ir::signal::Signals;
use smallvec::SmallVec;

use crate::tier::TemplateConfig;
use crate::wire::{MAX_TEMPLATES, Order};

/// The most entries of a tape on the wire. A longer segment is split.
const SEGMENT: usize = 1 << 14;
/// The most remembered keys of segments that were seen once.
const MAX_SEEN: usize = 1 << 10;
/// How many sizes of a form are templates at once before any of them has to come again.
const TRIED: u32 = 32;

/// The messages of a segment.
pub(crate) type Messages = SmallVec<[Order; 2]>;

/// Why a segment was not the expected one.
#[derive(Debug)]
pub(crate) enum Miss {
    /// It differs from the expected segment.
    Differs(Key, Difference),
    /// Its template was dropped to make room.
    Evicted(Key),
}

/// The templates of a session, on the client's side.
pub(crate) struct Templates {
    config: TemplateConfig,
    held: Lru<Held>,
    n_entries: usize,
    /// Templates by key. Several may share a key if they differ only in source locations.
    numbers: HashMap<Key, SmallVec<[u32; 2]>>,
    seen: Seen,
    /// The forms of segments that came a second time: keys without sizes.
    forms: Seen<Form>,
    /// The template of the last segment, if it had one.
    last: Option<u32>,
    matcher: Matcher,
    canonicalizer: Canonicalizer,
    stats: SegmentStats,
    /// The configuration of the program's signals.
    signals: Signals,
    /// Misses not yet taken. None if nobody asks for them.
    misses: Option<Vec<Miss>>,
}

struct Held {
    template: Template,
    /// The template of the segment that followed it the last time.
    next: Option<u32>,
    /// The form of a template that was made at once and has not come again.
    untried: Option<Key>,
}

/// What became of the sizes of a form.
#[derive(Default)]
struct Form {
    /// How many were templates at once.
    made: u32,
    /// How many came again.
    again: u32,
}

impl Form {
    /// Whether a new size is worth a template, and the wait for its plan.
    fn pays(&self) -> bool {
        self.made < TRIED || self.again >= self.made / 4
    }
}

/// The most recent keys of segments that were seen once, with what is known of each.
#[derive(Default)]
struct Seen<T = ()> {
    keys: Lru<(Key, T)>,
    slots: HashMap<Key, usize>,
}

impl<T: Default> Seen<T> {
    /// Remembers a key, and drops the oldest above the limit.
    fn insert(&mut self, key: Key) {
        match self.slots.get(&key) {
            Some(&slot) => self.keys.touch(slot),
            None => {
                self.slots.insert(key, self.keys.insert((key, T::default())));
            }
        }
        if self.keys.len() > MAX_SEEN
            && let Some((oldest, _)) = self.keys.oldest().and_then(|slot| self.keys.remove(slot))
        {
            self.slots.remove(&oldest);
        }
    }

    /// What is known of a key that is remembered.
    fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (_, known) = self.keys.get_mut(*self.slots.get(&key)?)?;
        Some(known)
    }

    /// Forgets a key. Says whether it was remembered.
    fn remove(&mut self, key: Key) -> bool {
        let slot = self.slots.remove(&key);
        slot.and_then(|slot| self.keys.remove(slot)).is_some()
    }
}

impl Templates {
    /// An empty table. With `verbose` it keeps the reasons of misses.
    pub(crate) fn new(config: TemplateConfig, verbose: bool) -> Templates {
        Templates {
            config: TemplateConfig { most: config.most.min(MAX_TEMPLATES), ..config },
            held: Lru::new(),
            n_entries: 0,
            numbers: HashMap::new(),
            seen: Seen::default(),
            forms: Seen::default(),
            last: None,
            matcher: Matcher::with_places(),
            canonicalizer: Canonicalizer::new(),
            stats: SegmentStats::default(),
            signals: Signals::new(),
            misses: verbose.then(Vec::new),
        }
    }

    /// The counts of messages sent so far.
    pub(crate) fn stats(&self) -> SegmentStats {
        self.stats
    }

    /// Takes what the program says about its signals from now on.
    pub(crate) fn configure(&mut self, signals: Signals) {
        self.signals = signals;
    }

    /// Keeps the reasons of misses from now on.
    pub(crate) fn listen(&mut self) {
        self.misses.get_or_insert_default();
    }

    /// The misses since the last call.
    pub(crate) fn take_misses(&mut self) -> Vec<Miss> {
        self.misses.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The messages of the next segment, in order.
    pub(crate) fn take(&mut self, mut segment: Tape) -> Messages {
        let mut out = Messages::new();
        while segment.entries.len() > SEGMENT {
            let rest = segment.entries.split_off(SEGMENT);
            self.piece(segment, &mut out);
            segment = Tape { entries: rest };
        }
        self.piece(segment, &mut out);
        out
    }

    fn piece(&mut self, segment: Tape, out: &mut Messages) {
        if self.config.most == 0 || segment.entries.len() < self.config.least {
            return self.tape(segment, out);
        }
        let expected = self.last.and_then(|last| self.held.get(last as usize)?.next);
        let mut bindings = self.room(expected);
        if let Some(number) = expected {
            if self.fits(number, &segment, &mut bindings) {
                return self.launch(number, bindings, out);
            }
            self.stats.misses += 1;
        }
        let key = self.canonicalizer.segment(&segment, &mut bindings);
        let known = self.numbers.get(&key).cloned().unwrap_or_default();
        let place =
            known.iter().copied().find(|&number| self.fits(number, &segment, &mut bindings));
        if let Some(number) = place {
            return self.launch(number, bindings, out);
        }
        let is_new = known.is_empty() && !self.seen.remove(key);
        let form = self.canonicalizer.form(&segment);
        let is_resized = is_new && self.forms.get_mut(form).is_some_and(|form| form.pays());
        if is_new {
            self.explain(expected, &segment);
        }
        if is_new && !is_resized && !self.signals.compiles(&segment) {
            self.seen.insert(key);
            self.last = None;
            return self.tape(segment, out);
        }
        self.forms.insert(form);
        if let Some(of) = self.forms.get_mut(form) {
            if is_new { of.made += 1 } else { of.again += 1 }
        }
        let (template, bindings) = canonical(&segment);
        let planned = is_resized || self.signals.compiles(&template.tape);
        let Some(number) = self.define(template, planned, out) else {
            return self.tape(segment, out);
        };
        self.launch(number, bindings, out);
        if let Some(held) = self.held.get_mut(number as usize).filter(|_| is_new) {
            held.untried = Some(form);
        }
    }

    fn tape(&mut self, segment: Tape, out: &mut Messages) {
        self.stats.tapes += 1;
        out.push(Order::Run(Arc::new(segment)));
    }

    /// Empty bindings with enough capacity for a template's bindings.
    fn room(&self, number: Option<u32>) -> Bindings {
        let held = number.and_then(|number| self.held.get(number as usize));
        held.map_or_else(Bindings::default, |held| Bindings {
            inputs: Vec::with_capacity(held.template.n_inputs),
            scalars: Vec::with_capacity(held.template.slots.len()),
            ..Bindings::default()
        })
    }

    /// Whether a segment equals a template, source locations included. If so, puts its bindings
    /// into `bindings`.
    fn fits(&mut self, number: u32, segment: &Tape, bindings: &mut Bindings) -> bool {
        let Some(held) = self.held.get(number as usize) else { return false };
        self.matcher.matches(&held.template, segment, bindings).is_ok()
    }

    fn launch(&mut self, number: u32, bindings: Bindings, out: &mut Messages) {
        self.stats.launches += 1;
        self.held.touch(number as usize);
        let tried = self.held.get_mut(number as usize).and_then(|held| held.untried.take());
        if let Some(form) = tried.and_then(|form| self.forms.get_mut(form)) {
            form.again += 1;
        }
        let last = self.last.replace(number);
        if let Some(last) = last.and_then(|last| self.held.get_mut(last as usize)) {
            last.next = Some(number);
        }
        out.push(Order::Launch { template: number, bindings: Arc::new(bindings) });
    }

    /// Defines a template, and drops others for it if necessary. None if the template alone is too
    /// large.
    fn define(&mut self, template: Template, planned: bool, out: &mut Messages) -> Option<u32> {
        let size = template.tape.entries.len();
        if size > self.config.entries {
            return None;
        }
        let most = self.config.most as usize;
        while self.n_entries + size > self.config.entries || self.held.len() >= most {
            let oldest = self.held.oldest()?;
            self.evict(oldest as u32, out);
        }
        self.stats.templates += 1;
        self.n_entries += size;
        let (key, tape) = (template.key, Arc::clone(&template.tape));
        let number = self.held.insert(Held { template, next: None, untried: None }) as u32;
        self.numbers.entry(key).or_default().push(number);
        out.push(Order::Define { template: number, tape, planned });
        Some(number)
    }

    fn evict(&mut self, number: u32, out: &mut Messages) {
        let Some(held) = self.held.remove(number as usize) else { return };
        let key = held.template.key;
        self.stats.evictions += 1;
        self.n_entries -= held.template.tape.entries.len();
        if let Some(numbers) = self.numbers.get_mut(&key) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.numbers.remove(&key);
            }
        }
        if self.last == Some(number) {
            self.last = None;
        }
        // Its segment counts as seen, so it becomes a template again the next time.
        self.seen.insert(key);
        self.misses.as_mut().into_iter().for_each(|misses| misses.push(Miss::Evicted(key)));
        out.push(Order::Forget { template: number });
    }

    /// Notes why a segment is not the expected one, if misses are kept.
    fn explain(&mut self, expected: Option<u32>, segment: &Tape) {
        let Some(misses) = &mut self.misses else { return };
        let expected = expected.and_then(|number| self.held.get(number as usize));
        if let Some(expected) = expected {
            let (found, _) = canonical(segment);
            let key = expected.template.key;
            misses.push(Miss::Differs(key, explain(&expected.template, &found)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_ir::canonical::expand;
    use gt_ir::testing::{Config, Source, tape};
    use gt_ir::{Entry, ValueId};
    use std::collections::BTreeMap;

    /// The other side, which turns messages back into segments.
    #[derive(Default)]
    struct Receiver {
        templates: BTreeMap<u32, Template>,
        most: usize,
        entries: usize,
    }

    impl Receiver {
        fn take(&mut self, messages: Messages) -> Vec<Tape> {
            let mut segments = Vec::new();
            for message in messages {
                match message {
                    Order::Run(tape) => segments.push(Tape::clone(&tape)),
                    Order::Define { template, tape, .. } => {
                        let made = Template::new(tape).expect("templates are canonical");
                        self.templates.insert(template, made);
                        let entries: usize =
                            self.templates.values().map(|t| t.tape.entries.len()).sum();
                        assert!(self.templates.len() <= self.most && entries <= self.entries);
                    }
                    Order::Launch { template, bindings } => {
                        let template = &self.templates[&template];
                        segments.push(expand(template, &bindings).expect("bindings that fit"));
                    }
                    Order::Forget { template } => {
                        self.templates.remove(&template).expect("it was defined");
                    }
                    other => panic!("{other:?}"),
                }
            }
            segments
        }
    }

    /// The segment with other numbers of values.
    fn moved(tape: &Tape, by: u64) -> Tape {
        let (template, mut bindings) = canonical(tape);
        bindings.inputs.iter_mut().for_each(|value| value.0 += by);
        if let gt_ir::canonical::Defined::Run(first, _) = &mut bindings.defined {
            first.0 += by;
        }
        expand(&template, &bindings).expect("its own bindings, moved")
    }

    #[test]
    fn what_is_sent_stands_for_what_was_recorded() {
        for seed in 0..40 {
            let mut source = Source::from_seed(seed);
            let config = Config { instrs: 1 + source.below(20), ..Config::default() };
            let bodies: Vec<Tape> = (0..6).map(|_| tape(&mut source, &config)).collect();
            let (most, entries) = (1 + source.below(7) as u32, 20 + source.below(200));
            let config = TemplateConfig { most, entries, least: source.below(6) };
            let mut templates = Templates::new(config, true);
            let mut receiver = Receiver { most: most as usize, entries, ..Receiver::default() };
            let (mut at, mut n_sent) = (0, 0);
            for round in 0..200 {
                at = if source.chance(3, 4) { (at + 1) % 3 } else { source.below(bodies.len()) };
                let segment = moved(&bodies[at], round * 1000);
                assert_eq!(receiver.take(templates.take(segment.clone())), [segment]);
                n_sent += 1;
            }
            let stats = templates.stats();
            assert_eq!(stats.tapes + stats.launches, n_sent);
        }
    }

    #[test]
    fn a_key_that_comes_again_is_remembered_as_long_as_a_new_one() {
        let mut seen = Seen::<()>::default();
        let key = |n: usize| Key(n as u128);
        seen.insert(key(0));
        assert!(seen.remove(key(0)) && !seen.remove(key(0)));
        // One key fewer than the limit, then the first key again.
        (1..MAX_SEEN).for_each(|n| seen.insert(key(n)));
        seen.insert(key(0));
        seen.insert(key(MAX_SEEN));
        assert!(!seen.remove(key(1)), "the oldest goes");
        assert!(seen.remove(key(0)) && seen.remove(key(2)) && seen.remove(key(MAX_SEEN)));
        assert_eq!(seen.keys.len(), seen.slots.len());
    }

    #[test]
    fn a_segment_of_another_size_is_a_template_at_once_after_one_came_again() {
        let sized = |n: usize| {
            let text = format!("gt tape 1\n%0 = input : f32[{n},2]\n%1 = expand[3,{n},2] %0\n");
            gt_ir::text::load(&text).expect("a tape").tape
        };
        let config = TemplateConfig { least: 0, ..TemplateConfig::default() };
        let mut templates = Templates::new(config, false);
        let mut sent = |n| match &templates.take(sized(n))[..] {
            [Order::Run(_)] => "tape",
            [Order::Define { planned: false, .. }, Order::Launch { .. }] => "template",
            [Order::Define { planned: true, .. }, Order::Launch { .. }] => "template with plan",
            [Order::Launch { .. }] => "launch",
            other => panic!("{other:?}"),
        };
        assert_eq!([4, 5, 6].map(&mut sent), ["tape"; 3], "nothing came again yet");
        assert_eq!([5, 7, 5].map(&mut sent), ["template", "template with plan", "launch"]);
        assert_eq!([8, 7, 4].map(&mut sent), ["template with plan", "launch", "template"]);
    }

    #[test]
    fn sizes_that_never_come_again_are_tapes_after_a_while() {
        let sized = |n: usize| {
            let text = format!("gt tape 1\n%0 = input : f32[{n},2]\n%1 = expand[3,{n},2] %0\n");
            gt_ir::text::load(&text).expect("a tape").tape
        };
        let config = TemplateConfig { least: 0, ..TemplateConfig::default() };
        let mut templates = Templates::new(config, false);
        let mut tapes = |sizes: std::ops::Range<usize>| {
            let sent = sizes.map(|n| templates.take(sized(n)));
            sent.filter(|orders| matches!(orders[..], [Order::Run(_)])).count()
        };
        assert_eq!((tapes(1..2), tapes(1..2)), (1, 0));
        assert_eq!(tapes(100..200), 100 - TRIED as usize);
        // Once they do come again, the next sizes are templates at once.
        assert_eq!((tapes(100..150), tapes(200..210)), (0, 0));
    }

    #[test]
    fn a_loop_is_sent_three_times_at_most_and_expected_from_then_on() {
        let frees = |of: u64| (0..4).map(|i| Entry::Free(ValueId(10 * of + i))).collect();
        let small = |of: u64| Tape { entries: vec![Entry::Free(ValueId(of))] };
        let mut templates = Templates::new(TemplateConfig::default(), false);
        for round in 0..10 {
            let sent = templates.take(Tape { entries: frees(round) });
            let launched = matches!(sent.last(), Some(Order::Launch { template: 0, .. }));
            assert_eq!((launched, sent.len()), (round > 0, if round == 1 { 2 } else { 1 }));
            assert!(matches!(&templates.take(small(round))[..], [Order::Run(_)]));
        }
        let stats = templates.stats();
        assert_eq!((stats.tapes, stats.launches, stats.templates), (11, 9, 1));
        assert_eq!((stats.misses, stats.evictions), (0, 0));
    }
}

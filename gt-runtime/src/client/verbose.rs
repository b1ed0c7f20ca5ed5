//! The messages of a client about what became of segments.

use gt_ir::canonical::Key;

use super::templates::Miss;
use crate::wire::Planned;

/// A line about the compilation of a template.
pub(super) fn planned(news: &Planned) -> String {
    let types = news.retyped.as_ref().map(|which| format!("; {which}")).unwrap_or_default();
    let (key, n) = (brief(Key(news.key)), news.instructions);
    let segment = format!("segment {key} ({n} instructions{types})");
    if let Some(why) = &news.failed {
        return format!("{segment} stays as it is: {}", why.replace('\n', "; "));
    }
    let (ms, cached) = (news.nanos as f64 / 1e6, if news.cached { " (cached)" } else { "" });
    let without = match news.unused {
        0 => String::new(),
        1 => ", without 1 result that nothing used".to_owned(),
        n => format!(", without {n} results that nothing used"),
    };
    format!(
        "{segment} -> plan p{}: {} kernels in {} launches, compiled in {ms:.1} ms{cached}{without}",
        news.plan, news.kernels, news.launches
    )
}

/// A line about a segment that was not the expected one.
pub(super) fn miss(miss: &Miss) -> String {
    match miss {
        Miss::Differs(expected, difference) => {
            format!("a segment is new: {} was expected, but {difference}", brief(*expected))
        }
        Miss::Evicted(key) => {
            format!("the template of segment {} was dropped: too many templates", brief(*key))
        }
    }
}

/// The beginning of a key.
fn brief(key: Key) -> String {
    let mut text = key.to_string();
    text.truncate(4);
    text + ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_became_of_a_segment() {
        let news = Planned {
            key: 0x4f3a << 112,
            instructions: 41,
            plan: 1,
            kernels: 7,
            launches: 5,
            unused: 0,
            nanos: 3_100_000,
            cached: true,
            retyped: None,
            failed: None,
        };
        assert_eq!(
            planned(&news),
            "segment 4f3a.. (41 instructions) -> plan p1: 7 kernels in 5 launches, compiled in \
             3.1 ms (cached)"
        );
        let fewer = planned(&Planned { unused: 2, ..news.clone() });
        assert!(fewer.ends_with("3.1 ms (cached), without 2 results that nothing used"));
        let why = Some("no room\nhint: none".into());
        let failed = Planned { failed: why, retyped: Some("which".into()), ..news };
        assert_eq!(
            planned(&failed),
            "segment 4f3a.. (41 instructions; which) stays as it is: no room; hint: none"
        );
    }
}

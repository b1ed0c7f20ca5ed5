//! Light work of members that take turns, put off until its first use. Otherwise a member would cut
//! all micro-batches of an upload at once, and keep what it moves for the way back in a copy.
//!
//! Put off is what needs only what the member holds, and what is moved and no smaller than before:
//! neither holds anything longer than its own result. Levels of other work stay.

use gt_ir::Class;

use super::lanes::{Arg, Item, Lane, Lanes};
use super::turns::Moment;

/// Puts off light work of all members, if they take turns.
pub(super) fn sink(lanes: &mut Lanes) {
    let turns = lanes.turns;
    let earlier = |a: Moment, b: Moment| {
        if b.key(turns.schedule) < a.key(turns.schedule) { b } else { a }
    };
    for lane in lanes.all.iter_mut().filter(|_| turns.n > 1) {
        let is_light = light(lane);
        let mut first_use: Vec<Option<Moment>> = vec![None; lane.locals.len()];
        let mut sent = vec![false; lane.locals.len()];
        for item in lane.items.iter().rev() {
            match item {
                Item::Send { value, .. } => sent[*value as usize] = true,
                Item::Instr { args, out, .. } => {
                    let out = *out as usize;
                    if let (true, false, Some(moment)) = (is_light[out], sent[out], first_use[out])
                    {
                        lane.locals[out].moment = moment;
                    }
                    let moment = lane.locals[out].moment;
                    for name in args.iter().filter_map(Arg::name) {
                        let first = &mut first_use[name as usize];
                        *first = Some(first.map_or(moment, |first| earlier(first, moment)));
                    }
                }
                Item::Receive { .. } => {}
            }
        }
    }
}

/// For each value of a lane whether its instruction may be put off.
fn light(lane: &Lane) -> Vec<bool> {
    let mut is_free: Vec<bool> = lane.locals.iter().map(|local| local.given.is_some()).collect();
    let mut is_light = vec![false; lane.locals.len()];
    for item in &lane.items {
        let Item::Instr { op, args, out, .. } = item else { continue };
        let names = || args.iter().filter_map(Arg::name);
        let (moves, cheap) = match op.spec().class {
            Class::Move => (true, true),
            Class::Pointwise | Class::Source => (false, true),
            Class::Reduce | Class::Contract | Class::Matrix | Class::Gather => (false, false),
        };
        let read: usize = names().map(|name| lane.local(name).ty.bytes()).sum();
        let out = *out as usize;
        is_free[out] = cheap && names().all(|name| is_free[name as usize]);
        is_light[out] = is_free[out] || (moves && lane.locals[out].ty.bytes() >= read);
    }
    is_light
}

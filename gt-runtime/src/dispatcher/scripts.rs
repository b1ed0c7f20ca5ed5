//! Dialogues with the dispatcher: each line is an event, and the lines with `>` below it are the
//! dispatcher's actions.
//!
//! `2s p1 ...` is a message (or a hello) from peer `p1` at 2 seconds. The transport loses nothing,
//! so the links add no lines of their own. Peers below `p5` are clients, the others are workers.

mod driver;
mod gangs;
mod peers;
mod placement;
mod quotas;
mod templates;

use super::{Action, Config};
use crate::priority::Priority;
use driver::{Driver, script, served};

#[test]
fn work_and_a_read() {
    served(
        Config::embedded(),
        "0s p1 chunk %0 i64[2] 0 16
         > p5 open s1 of s1 (pi, pid 1)
         > p5 chunk s1 %0 0
         0s p1 tape %0 = input : i64[2]; %1 = add %0, %0; output %1
         > p5 run s1 #0 a0: %0 = input : i64[2]; %1 = add %0, %0 : i64[2]; output %1
         0s p1 fetch r1 %1
         > p5 fetch s1 r1 %1
         0s p5 done s1 #0 a0
         0s p5 chunk s1 r1 %1 i64[2] 0 8
         > p1 chunk r1 %1 0
         0s p5 chunk s1 r1 %1 i64[2] 8 8
         > p1 chunk r1 %1 8
         0s p5 chunk s1 r1 %1 i64[2] 0 16
         0s p1 close
         > forget p1
         > p5 end s1
         > p5 end s1",
    );
}

#[test]
fn segments_above_the_share_wait_and_what_does_not_need_them_goes_ahead() {
    let mut config = Config::embedded();
    // A quarter of it is the share: two segments.
    config.worker.control.window = 4 * 400;
    served(
        config,
        "0s p1 tape %0 = full[i64[2]] 3; output %0
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]; output %0
         0s p1 tape %1 = neg %0; output %1
         > p5 run s1 #1 a0: %1 = neg %0; output %1
         0s p1 tape %2 = neg %1; output %2
         0s p1 tape %3 = neg %2; %4 = input : i64[2]
         0s p1 fetch r1 %3
         0s p1 fetch r2 %2
         0s p1 fetch r3 %0
         > p5 fetch s1 r3 %0
         0s p1 chunk %4 i64[2] 0 16
         > p5 chunk s1 %4 0
         0s p5 done s1 #0 a0
         > p5 run s1 #2 a0: %2 = neg %1; output %2
         > p5 fetch s1 r2 %2
         1s p5 lost
         > forget p5
         > p1 failed r1: worker w1 (pi, pid 5) was lost with the values it held: its process ended
         > p1 failed r2: worker w1 (pi, pid 5) was lost with the values it held: its process ended
         > p1 failed r3: worker w1 (pi, pid 5) was lost with the values it held: its process ended
         2s p1 tape %5 = full[i64[2]] 3; output %5
         2s p5 hello
         > p5 welcome w2
         2s p5 register
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #4 a1: %5 = full[i64[2]] 3 : i64[2]; output %5",
    );
}

#[test]
fn a_worker_learns_the_weight_of_a_session_up_to_the_servers_limit() {
    script(
        Config { max_priority: Priority::of(40), ..Config::embedded() },
        "0s p5 hello
         > p5 welcome w1
         0s p5 register
         0s p1 hello weighing 20
         > p1 welcome s1
         0s p1 tape %0 = full[i64[2]] 3
         > p5 open s1 of s1 (pi, pid 1) with weight 20
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p2 hello weighing 4000
         > p2 welcome s2
         0s p2 tape %0 = full[i64[2]] 3
         > p5 open s2 of s2 (pi, pid 2) with weight 40
         > p5 run s2 #0 a0: %0 = full[i64[2]] 3 : i64[2]",
    );
}

#[test]
fn each_session_has_its_own_signals_and_keeps_them_when_its_worker_is_lost() {
    script(
        Config::embedded(),
        "0s p1 hello
         > p1 welcome s1
         0s p2 hello
         > p2 welcome s2
         0s p1 configure layer1 layer2
         0s p1 stats r1
         > p1 stats r1 signals layer1 layer2
         0s p2 stats r1
         > p2 stats r1
         0s p5 hello
         > p5 welcome w1
         0s p5 register
         0s p1 tape %0 = full[i64[2]] 3
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p2 configure layer3
         1s p5 lost
         > forget p5
         1s p1 stats r2
         > p1 stats r2 0 segments on w1 (pi, pid 5) signals layer1 layer2
         1s p2 stats r2
         > p2 stats r2 signals layer3
         1s p1 configure
         1s p1 stats r3
         > p1 stats r3 0 segments on w1 (pi, pid 5)",
    );
}

#[test]
fn a_lost_worker_poisons_what_it_held() {
    served(
        Config::embedded(),
        "0s p1 tape %0 = input : i64[2]; %1 = neg %0; output %1
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = input : i64[2]; %1 = neg %0 : i64[2]; output %1
         0s p1 fetch r1 %1
         > p5 fetch s1 r1 %1
         0s p6 hello
         > p6 welcome w2
         0s p6 register
         1s p5 lost
         > forget p5
         > p1 failed r1: worker w1 (pi, pid 5) was lost with the values it held: its process ended
         1s p1 chunk %0 i64[2] 0 16
         2s p1 tape %2 = neg %1; free %1; %3 = full[i64[2]] 3; %4 = neg %3; output %2; output %4
         > p6 open s1 of s1 (pi, pid 1)
         > p6 run s1 #1 a1: %3 = full[i64[2]] 3 : i64[2]; %4 = neg %3 : i64[2]; output %4
         2s p1 fetch r2 %2
         > p1 failed r2: worker w1 (pi, pid 5) was lost with the values it held: its process ended
         2s p1 fetch r3 %1
         > p1 failed r3: cannot read %1: it was freed, or never computed
         2s p1 fetch r4 %4
         > p6 fetch s1 r4 %4
         2s p6 failed s1 r4
         > p1 failed r4: index 9 is out of range",
    );
}

#[test]
fn without_a_worker_a_read_fails_and_says_why() {
    script(
        Config::embedded(),
        "0s p1 hello
         > p1 welcome s1
         0s p1 tape %0 = full[i64[2]] 3; output %0
         1s p1 fetch r1 %0
         5s tick
         11s tick
         > p1 failed r1: no worker is connected to the server, and none came within 10 s; hint: \
         start one with `gt-cli worker --connect HOST:PORT`
         12s p1 fetch r2 %0
         13s p5 hello
         > p5 welcome w1
         13s p5 register
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]; output %0
         > p5 fetch s1 r2 %0
         700s tick
         > p1 failed r2: worker w1 (pi, pid 5) has reported nothing about this session for 600 s",
    );
}

#[test]
fn a_bad_tape_harms_only_its_session() {
    served(
        Config::embedded(),
        "0s p2 hello
         > p2 welcome s2
         0s p2 tape %0 = full[i64[2]] 3
         > p5 open s2 of s2 (pi, pid 2)
         > p5 run s2 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p1 tape %0 = full[i64[2]] 3
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p1 tape %1 = neg %0; %2 = add %7, %0
         > p5 end s1
         > p5 end s1
         0s p1 fetch r1 %0
         > p1 failed r1: the server refused entry 1 of segment 1: add: %7 is not alive; hint: it \
         was freed, or never defined
         0s p2 fetch r1 %0
         > p5 fetch s2 r1 %0",
    );
}

#[test]
fn only_the_home_is_listened_to() {
    script(
        Config::embedded(),
        "0s p5 hello
         > p5 welcome w1
         0s p5 register
         0s p6 hello
         > p6 welcome w2
         0s p6 register
         0s p1 hello
         > p1 welcome s1
         0s p1 tape %0 = full[u8[2]] 3
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[u8[2]] 3 : u8[2]
         0s p1 fetch r1 %0
         > p5 fetch s1 r1 %0
         0s p6 failed s1 r1
         0s p6 chunk s1 r1 %0 u8[2] 0 2
         0s p6 done s1 #0 a0
         0s p5 done s1 #0 a7
         0s p5 done s1 #9 a0
         0s p5 chunk s1 r1 %0 u8[2] 1 1
         > p1 failed r1: worker w1 (pi, pid 5) answered the read of %0 with data that was not \
         requested
         0s p5 lost
         > forget p5
         0s p1 stats r2
         > p1 stats r2 0 segments on w1 (pi, pid 5)",
    );
}

#[test]
fn orders_that_wait_for_a_worker_outlast_a_change_of_signals() {
    let mut driver = Driver::new(Config::embedded());
    let lines = "0s p5 hello
        0s p5 register
        0s p6 hello
        0s p6 register
        0s p1 hello
        0s p1 configure a=all
        0s p1 tape %0 = full[i64[2]] 3
        1s p5 lost
        1s p6 lost
        2s p1 tape %1 = full[i64[2]] 4; output %1
        2s p1 configure a
        3s p5 hello
        3s p5 register";
    let last = lines.lines().map(|line| driver.line(line.trim())).last().unwrap_or_default();
    let is_run = |action: &Action| format!("{action:?}").contains("Run(");
    assert!(last.iter().any(is_run), "{last:?}");
}

/// `p6` is a worker, but the session lives on `p5`.
#[test]
fn a_worker_answers_only_for_its_own_sessions() {
    served(
        Config::embedded(),
        "0s p1 tape %0 = full[u8[1]] 3; output %0
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[u8[1]] 3 : u8[1]; output %0
         0s p1 fetch r1 %0
         > p5 fetch s1 r1 %0
         0s p6 hello
         > p6 welcome w2
         0s p6 register
         0s p6 chunk s1 r1 %0 u8[1] 0 1
         0s p6 failed s1 r1
         0s p6 done s1 #0 a0
         0s p6 stats s1 r1
         0s p6 sent s1 r1
         0s p5 chunk s1 r1 %0 u8[1] 0 1
         > p1 chunk r1 %0 0
         0s p5 chunk s1 r1 %0 u8[1] 0 1
         0s p5 failed s1 r2",
    );
}

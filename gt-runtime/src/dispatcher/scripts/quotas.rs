//! Dialogues about quotas: what a session or a user may hold, leave unfinished and use.

use super::driver::{Driver, script, served};
use crate::dispatcher::{Config, Rate};
use crate::ids::PeerId;
use crate::wire::Stream;

#[test]
fn a_slow_reader_waits_for_itself() {
    served(
        Config { relay: 20, ..Config::embedded() },
        "0s p1 tape %0 = full[i64[2]] 3; output %0
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]; output %0
         0s p1 fetch r1 %0
         > p5 fetch s1 r1 %0
         0s p1 fetch r2 %0
         0s p1 tape free %0
         0s p5 chunk s1 r1 %0 i64[2] 0 8
         > p1 chunk r1 %0 0
         0s p5 chunk s1 r1 %0 i64[2] 8 8
         > p1 chunk r1 %0 8
         > p5 fetch s1 r2 %0
         > p5 run s1 #1 a0: free %0
         0s p5 failed s1 r2
         > p1 failed r2: index 9 is out of range",
    );
}

#[test]
fn a_tape_may_pass_through_more_bytes_than_can_be_counted() {
    // Each value has 2^51 bytes, and 2^13 of them have 2^64.
    let n = (1 << 13) + 1;
    let made = (0..n).map(|i| format!("%{i} = full[i64[281474976710656]] 3"));
    let freed = (0..n).map(|i| format!("free %{i}"));
    let all: Vec<String> = made.chain(freed).collect();
    let mut driver = Driver::new(Config::embedded());
    driver.line("0s p1 hello");
    driver.line(&format!("0s p1 tape {}", all.join("; ")));
    driver.line("0s p1 stats r1");
    assert_eq!(driver.dispatcher.n_sessions(), 1);
}

/// A session that may hold 100 bytes.
fn small() -> Config {
    Config { quota: 100, ..Config::embedded() }
}

/// The error of a second value of 80 bytes.
const NO_ROOM: &str = "i64[10] takes 80 B, but the session holds 80 B of the 100 B it may hold; \
                       hint: drop tensors as soon as they are not needed, or compute this one in \
                       parts";

#[test]
fn a_value_there_is_no_room_for_fails_alone() {
    served(
        small(),
        &format!(
            "0s p1 tape %0 = full[i64[10]] 3
             > p5 open s1 of s1 (pi, pid 1)
             > p5 run s1 #0 a0: %0 = full[i64[10]] 3 : i64[10]
             0s p1 tape %1 = full[i64[10]] 4; %2 = neg %1; %3 = sum[0] %2; %4 = sum[0] %0; output \
             %3; output %4
             > p5 run s1 #1 a0: %4 = sum[0] %0; output %4
             0s p1 fetch r1 %3
             > p1 failed r1: full: {NO_ROOM}
             0s p1 fetch r2 %4
             > p5 fetch s1 r2 %4
             0s p1 tape free %1; free %2; free %3; free %0; %5 = full[i64[10]] 5
             > p5 run s1 #2 a0: free %0; %5 = full[i64[10]] 5 : i64[10]
             0s p1 fetch r3 %5
             > p5 fetch s1 r3 %5"
        ),
    );
}

#[test]
fn a_value_too_many_fails_alone() {
    served(
        Config { max_values: 2, ..Config::embedded() },
        "0s p1 tape %0 = full[u8[1]] 3; %1 = full[u8[1]] 4; %2 = full[u8[1]] 5; %3 = neg %2
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[u8[1]] 3 : u8[1]; %1 = full[u8[1]] 4 : u8[1]
         0s p1 fetch r1 %3
         > p1 failed r1: full: the session holds 2 values, and may hold no more; hint: drop \
         tensors as soon as they are not needed
         0s p1 tape free %0; free %2; free %3; %4 = full[u8[1]] 6
         > p5 run s1 #1 a0: free %0; %4 = full[u8[1]] 6 : u8[1]
         0s p1 fetch r2 %4
         > p5 fetch s1 r2 %4",
    );
}

#[test]
fn uploads_that_no_program_declares_are_bounded() {
    served(
        Config { max_uploads: 100, ..Config::embedded() },
        "0s p1 chunk %0 i64[10] 0 80
         > p5 open s1 of s1 (pi, pid 1)
         > p5 chunk s1 %0 0
         0s p1 chunk %1 i64[10] 0 80
         0s p1 tape %0 = input : i64[10]; %1 = input : i64[10]
         > p5 run s1 #0 a0: %0 = input : i64[10]
         0s p1 fetch r1 %1
         > p1 failed r1: 160 B of uploads wait for a program that declares their inputs, and 100 B \
         are the most; hint: use each upload before the next ones, or upload less",
    );
}

#[test]
fn a_user_has_a_limited_number_of_sessions() {
    script(
        Config { max_sessions: 1, ..Config::embedded() },
        "0s p1 hello
         > p1 welcome s1
         0s p2 hello
         > p2 refused: its user has 1 sessions open, and 1 are the most
         > forget p2
         0s p5 hello
         > p5 welcome w1
         0s p1 bye
         > forget p1
         0s p3 hello
         > p3 welcome s2",
    );
}

#[test]
fn data_that_stops_coming_is_given_up() {
    served(
        Config::embedded(),
        "0s p1 chunk %0 i64[2] 0 8
         > p5 open s1 of s1 (pi, pid 1)
         > p5 chunk s1 %0 0
         0s p1 chunk %1 i64[2] 0 16
         > p5 chunk s1 %1 0
         20s p1 chunk %2 i64[2] 0 8
         > p5 chunk s1 %2 0
         49s tick
         51s tick
         > p5 fail s1 %0: the program brought no more of its data for 30 s
         > p5 fail s1 %2: the program brought no more of its data for 30 s
         52s p1 tape %0 = input : i64[2]; %1 = input : i64[2]
         > p5 run s1 #0 a0: %0 = input : i64[2]; %1 = input : i64[2]",
    );
}

#[test]
fn a_client_that_takes_no_answers_may_not_ask_forever() {
    let mut driver = Driver::new(Config::remote());
    driver.line("0s p1 hello");
    let mut kept = |requests: std::ops::Range<u64>| {
        requests.for_each(|n| drop(driver.line(&format!("0s p1 fetch r{n} %9"))));
        driver.dispatcher.queued(PeerId(1), Stream::Control)
    };
    let (few, most) = (kept(0..100), kept(100..6_000));
    assert!(few < most && kept(6_000..12_000) == most, "{few} and {most} bytes");
}

#[test]
fn new_programs_of_a_user_that_has_compiled_enough_wait() {
    let seconds = std::time::Duration::from_secs;
    let compile = Some(Rate { most: seconds(10), period: seconds(60) });
    served(
        Config { compile, ..Config::embedded() },
        "0s p1 tape %0 = full[i64[2]] 3
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p5 planned s1 12
         > p1 planned
         0s p1 define t0 %1 = neg %0; output %1
         > p1 warning: new programs wait for 13 s: those of this user may be compiled for 10 s in \
         60 s
         0s p1 launch t0 %0 to %1+1
         1s p1 fetch r1 %0
         > p5 fetch s1 r1 %0
         2s p1 fetch r2 %1
         11s tick
         12s tick
         > p5 define s1 t0 of 2 entries
         > p5 launch s1 #1 a0 t0: [%0] to [%1] with []
         > p5 fetch s1 r2 %1",
    );
}

#[test]
fn data_there_is_no_room_for_fails_alone() {
    served(
        small(),
        &format!(
            "0s p1 tape %0 = full[i64[10]] 3
             > p5 open s1 of s1 (pi, pid 1)
             > p5 run s1 #0 a0: %0 = full[i64[10]] 3 : i64[10]
             0s p1 chunk %1 i64[10] 0 40
             0s p1 chunk %1 i64[10] 40 40
             0s p1 tape %1 = input : i64[10]; %2 = neg %1; %3 = input : i64[10]; output %2
             > p5 run s1 #1 a0:
             0s p1 chunk %3 i64[10] 0 80
             0s p1 fetch r1 %2
             > p1 failed r1: {NO_ROOM}
             0s p1 fetch r2 %3
             > p1 failed r2: {NO_ROOM}
             0s p1 tape free %0; free %1; free %2; free %3
             > p5 run s1 #2 a0: free %0
             0s p1 chunk %4 i64[10] 0 80
             > p5 chunk s1 %4 0
             0s p1 tape %4 = input : i64[10]
             > p5 run s1 #3 a0: %4 = input : i64[10]
             0s p1 fetch r3 %4
             > p5 fetch s1 r3 %4"
        ),
    );
}

#[test]
fn a_launch_there_is_no_room_for_fails_alone() {
    let launch = |number: u32, seq: u32| {
        format!(
            "0s p1 launch t0 to %{number}+1 with {number}
             > p5 launch s1 #{seq} a0 t0: [] to [%{number}] with [I64({number})]"
        )
    };
    served(
        small(),
        &format!(
            "0s p1 define t0 %0 = full[i64[10]] 0
             > p5 open s1 of s1 (pi, pid 1)
             > p5 define s1 t0 of 1 entries
             {}
             0s p1 launch t0 to %1+1 with 1
             > p5 run s1 #1 a0:
             0s p1 fetch r1 %1
             > p1 failed r1: full: {NO_ROOM}
             0s p1 tape free %1; free %0
             > p5 run s1 #2 a0: free %0
             {}",
            launch(0, 0),
            launch(2, 3)
        ),
    );
}

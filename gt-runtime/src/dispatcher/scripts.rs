//! Dialogues with the dispatcher: each line is an event, and the lines with `>` below it are the
//! dispatcher's actions.
//!
//! `2s p1 ...` is a message (or a hello) from peer `p1` at 2 seconds. The transport loses nothing,
//! so the links add no lines of their own. Peers below `p5` are clients, the others are workers.

mod driver;
mod gangs;
mod placement;
mod templates;

use super::Config;
use crate::priority::Priority;
use crate::wire::PROTOCOL;
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
fn strangers_and_late_packets() {
    let text = "0s p1 hello version 99
         > p1 refused: protocol version 99 was refused by a server of version OURS; hint: run the \
         same version of gt on both sides
         > forget p1
         0s p1 tape %0 = full[u8[2]] 3
         > p1 refused: the server does not know this connection: it was restarted, or heard \
         nothing from here for too long
         > forget p1
         0s p1 hello
         > p1 welcome s1
         0s p1 hello again
         > p1 welcome s1
         1s p1 bye
         > forget p1
         2s p1 hello again
         > p1 refused: the server does not know this connection: it was restarted, or heard \
         nothing from here for too long
         > forget p1
         3s p2 hello resuming
         > p2 refused: the server does not know this connection: it was restarted, or heard \
         nothing from here for too long
         > forget p2
         4s p1 hello
         > p1 welcome s2
         4s p1 hello late
         5s shutdown
         > p1 bye: the operator stopped it
         > forget p1
         6s p1 hello";
    script(Config::remote(), &text.replace("OURS", &PROTOCOL.to_string()));
}

#[test]
fn a_hello_is_a_sign_of_life() {
    script(
        Config::remote(),
        "0s p1 hello
         > p1 welcome s1
         29s p1 hello again
         > p1 welcome s1
         31s tick
         31s p1 unreachable
         32s p2 hello of p1
         > forget p1
         > p2 welcome s1
         34s tick
         59s p2 unreachable
         61s p2 hello of p1
         > p2 welcome s1
         62s tick
         92s tick
         > p2 refused: the server closed the connection: nothing was heard from it for 30 s
         > forget p2",
    );
}

/// The incarnation is a clock, and the identity is shown to others.
#[test]
fn who_knows_all_but_the_secret_takes_nothing_over() {
    script(
        Config::remote(),
        "0s p1 hello
         > p1 welcome s1
         1s p2 hello guessing p1
         > p2 refused: the server does not know this connection: it was restarted, or heard \
         nothing from here for too long
         > forget p2
         2s p1 hello again
         > p1 welcome s1",
    );
}

#[test]
fn an_older_life_replaces_no_newer_one() {
    script(
        Config::embedded(),
        "0s p1 hello
         > p1 welcome s1
         1s p1 hello
         > forget p1
         > p1 welcome s2
         1s p1 hello late
         1s p1 tape %0 = full[u8[2]] 3
         1s p5 hello
         > p5 welcome w1
         1s p5 register
         > p5 open s2 of s2 (pi, pid 1)
         > p5 run s2 #0 a0: %0 = full[u8[2]] 3 : u8[2]
         2s p1 hello late
         3s p1 fetch r1 %0
         > p5 fetch s2 r1 %0",
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

//! Dialogues about sessions that live on two workers.

use super::driver::{Driver, script};
use crate::dispatcher::{Action, Config};
use crate::ids::PeerId;
use crate::wire::{Body, Message, Order, Packet, Stream, ToClient, ToWorker};
use gt_ir::ValueId;
use gt_ir::backend::RunError;

/// Two workers and a client connect.
const BEFORE: &str = "0s p5 hello
    > p5 welcome w1
    0s p5 register
    0s p6 hello
    > p6 welcome w2
    0s p6 register
    0s p1 hello
    > p1 welcome s1
    ";

/// A dialogue after two workers and a client have connected.
fn dialogue(text: &str) {
    script(Config::embedded(), &format!("{BEFORE}{text}"));
}

/// The actions after the last of these lines.
fn after(driver: &mut Driver, text: &str) -> Vec<Action> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('>'));
    lines.filter(|line| !line.is_empty()).map(|line| driver.line(line)).last().unwrap_or_default()
}

/// The first error that a peer is sent.
fn error(actions: &[Action]) -> &RunError {
    let message = |action| match action {
        &Action::Send(_, Packet { body: Body::Data { ref message, .. }, .. }) => Some(message),
        _ => None,
    };
    let error = |message| match message {
        &Message::ToWorker(ToWorker::Order { order: Order::Fail { ref error, .. }, .. })
        | &Message::ToClient(ToClient::Failed { ref error, .. }) => Some(error),
        _ => None,
    };
    actions.iter().filter_map(message).find_map(error).expect("an error")
}

#[test]
fn each_member_gets_its_part_and_what_others_send_it() {
    dialogue(
        "0s p1 configure a=all
         0s p1 chunk %0 i64[4] 0 32
         > p5 open s2 of s1 (pi, pid 1)
         > p5 chunk s2 %0 0
         > p6 open s3 of s1 (pi, pid 1)
         0s p1 tape enter \"a\"; %0 = input : i64[4]; %1 = neg %0; exit \"a\"; free %0
         > p5 run s2 #0 a0: %0 = input : i64[4]
         > p5 run s2 #1 a0: %+0 = slice[0,0,2,1] %0; %+1 = slice[0,2,4,1] %0; free \
         %0
         > p5 fetch s2 r+1 %+1
         > p5 run s2 #2 a0: free %+1; %+2 = neg %+0; free %+0
         > p6 run s3 #0 a0: %+3 = input : i64[2]; %+4 = neg %+3 : i64[2]; free %+3
         0s p5 done s2 #0 a0
         0s p5 chunk s2 r+1 %+1 i64[2] 0 8
         > p6 chunk s3 %+3 0
         0s p5 chunk s2 r+1 %+1 i64[2] 8 8
         > p6 chunk s3 %+3 8
         0s p5 done s2 #1 a0
         0s p6 done s3 #0 a0
         0s p1 fetch r1 %1
         > p5 run s2 #3 a0: %+5 = input : i64[2]; %+6 = cat[0] %+2, %+5; free %+5
         > p5 fetch s2 r1 %+6
         > p5 run s2 #4 a0: free %+6
         > p6 fetch s3 r+2 %+4
         0s p6 chunk s3 r1 %+6 i64[4] 0 32
         0s p6 failed s3 r1
         0s p6 chunk s3 r+2 %+4 i64[2] 0 16
         > p5 chunk s2 %+5 0
         0s p5 chunk s2 r1 %+6 i64[4] 0 32
         > p1 chunk r1 %1 0
         0s p1 tape free %1
         > p5 run s2 #5 a0: free %+2
         > p6 run s3 #1 a0: free %+4
         0s p1 close
         > forget p1
         > p5 end s2
         > p5 end s2
         > p6 end s3
         > p6 end s3",
    );
}

#[test]
fn a_large_upload_goes_to_the_members_that_need_its_rows() {
    script(
        Config { large_upload: 32, ..Config::embedded() },
        &format!(
            "{BEFORE}0s p1 configure a=all
             0s p1 tape enter \"a\"; %0 = input : i64[4]; %1 = neg %0; exit \"a\"; free %0; free %1
             > p5 open s2 of s1 (pi, pid 1)
             > p5 run s2 #0 a0: %0 = input : i64[4]
             > p5 run s2 #1 a0: free %0
             > p6 open s3 of s1 (pi, pid 1)
             0s p1 chunk %0 i64[4] 0 32
             > p5 chunk s2 %0 0
             0s p1 chunk %2 i64[4] 0 24
             > p5 chunk s2 %+0 0
             > p6 chunk s3 %+1 0
             0s p1 tape enter \"a\"; %2 = input : i64[4]; %3 = neg %2; exit \"a\"; free %2
             > p5 run s2 #2 a0: %+0 = input : i64[2]
             > p5 run s2 #3 a0: %+2 = neg %+0; free %+0
             > p6 run s3 #0 a0: %+1 = input : i64[2]
             > p6 run s3 #1 a0: %+3 = neg %+1; free %+1
             0s p1 chunk %2 i64[4] 24 8
             > p6 chunk s3 %+1 8
             0s p1 tape enter \"a\"; %4 = input : i64[4]; %5 = neg %4; exit \"a\"; free %4
             > p5 run s2 #4 a0: %+4 = input : i64[2]
             > p5 run s2 #5 a0: %+6 = neg %+4; free %+4
             > p6 run s3 #2 a0: %+5 = input : i64[2]
             > p6 run s3 #3 a0: %+7 = neg %+5; free %+5
             0s p1 chunk %4 i64[4] 0 8
             > p5 chunk s2 %+4 0
             20s tick
             40s tick
             > p5 fail s2 %+4: the program brought no more of its data for 30 s
             > p6 fail s3 %+5: the program brought no more of its data for 30 s"
        ),
    );
}

#[test]
fn members_that_reach_each_other_need_no_server_between_them() {
    let text = "0s p5 hello
         > p5 welcome w1
         0s p5 register
         0s p6 hello
         > p6 welcome w2
         0s p6 register at pi:1
         0s p1 hello
         > p1 welcome s1
         0s p1 configure a=all
         0s p1 tape %0 = input : i64[4]; enter \"a\"; %1 = neg %0; exit \"a\"; free %0
         > p5 open s2 of s1 (pi, pid 1)
         > p5 run s2 #0 a0: %0 = input : i64[4]
         > p5 run s2 #1 a0: %+0 = slice[0,0,2,1] %0; %+1 = slice[0,2,4,1] %0; free \
         %0
         > p5 send s2 r+1 %+1 to s3 %+3
         > p5 run s2 #2 a0: free %+1; %+2 = neg %+0; free %+0
         > p6 open s3 of s1 (pi, pid 1)
         > p6 run s3 #0 a0: %+3 = input : i64[2]; %+4 = neg %+3 : i64[2]; free %+3
         0s p6 sent s3 r+1
         0s p5 chunk s2 r+1 %+1 i64[2] 0 8
         > p6 chunk s3 %+3 0
         0s p5 sent s2 r+1
         0s p5 chunk s2 r+1 %+1 i64[2] 8 8
         0s p1 fetch r1 %1
         > p5 run s2 #3 a0: %+5 = input : i64[2]; %+6 = cat[0] %+2, %+5; free %+5
         > p5 fetch s2 r1 %+6
         > p5 run s2 #4 a0: free %+6
         > p6 fetch s3 r+2 %+4";
    script(Config::embedded(), text);
}

#[test]
fn an_equal_segment_is_a_launch_for_the_members_too() {
    dialogue(
        "0s p1 configure a=all
         0s p1 define t0 %0 = full[i64[4]] 0; enter \"a\"; %1 = cumsum[0] %0; exit \"a\"
         > p5 open s2 of s1 (pi, pid 1)
         > p6 open s3 of s1 (pi, pid 1)
         0s p1 launch t0 to %0+2 with 7
         > p5 define s2 t1 of 2 entries
         > p5 learn s2 t0: t1 on  to ~0 with #0
         > p5 perform s2 #0 a0 t0: [] from %+0 r+1 with [I64(7)]
         > p6 define s3 t1 of 2 entries
         > p6 learn s3 t0: t1 on  to ~2 with #0
         > p6 perform s3 #0 a0 t0: [] from %+0 r+1 with [I64(7)]
         0s p1 launch t0 to %2+2 with 8
         > p5 perform s2 #1 a0 t0: [] from %+4 r+2 with [I64(8)]
         > p6 perform s3 #1 a0 t0: [] from %+4 r+2 with [I64(8)]
         0s p1 configure a=1
         0s p1 launch t0 to %4+2 with 9
         > p5 forget s2 t0
         > p5 forget s2 t1
         > p6 forget s3 t0
         > p6 forget s3 t1
         > p6 define s3 t3 of 2 entries
         > p6 learn s3 t2: t3 on  to ~0 with #0
         > p6 perform s3 #2 a0 t2: [] from %+8 r+3 with [I64(9)]",
    );
}

#[test]
fn the_loss_of_a_member_is_the_loss_of_its_sessions_values_and_of_no_others() {
    dialogue(
        "0s p2 hello
         > p2 welcome s2
         0s p2 tape %0 = full[i64[2]] 3
         > p5 open s2 of s2 (pi, pid 2)
         > p5 run s2 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p1 configure a=all
         0s p1 tape enter \"a\"; %0 = full[i64[4]] 3; %1 = cumsum[0] %0; exit \"a\"
         > p5 open s3 of s1 (pi, pid 1)
         > p5 run s3 #0 a0: %+0 = full[i64[4]] 3 : i64[4]; %+1 = cumsum[0] %+0 : i64[4]
         > p6 open s4 of s1 (pi, pid 1)
         > p6 run s4 #0 a0: %+2 = full[i64[4]] 3 : i64[4]; %+3 = cumsum[0] %+2 : i64[4]
         1s p6 lost
         > forget p6
         > p5 end s3
         > p5 end s3
         1s p1 fetch r1 %1
         > p1 failed r1: worker w2 (pi, pid 6) was lost with the values it held: its process ended
         1s p2 fetch r1 %0
         > p5 fetch s2 r1 %0
         1s p1 tape enter \"a\"; %2 = full[i64[4]] 5; %3 = cumsum[0] %2; %4 = neg %1; exit \"a\"
         > p5 open s5 of s1 (pi, pid 1)
         > p5 run s5 #0 a1: %+4 = full[i64[4]] 5 : i64[4]; %+5 = cumsum[0] %+4 : i64[4]
         1s p1 fetch r2 %3
         > p5 fetch s5 r2 %+5
         1s p1 fetch r3 %4
         > p1 failed r3: worker w2 (pi, pid 6) was lost with the values it held: its process ended
         2s p5 done s3 #0 a0
         2s p1 close
         > forget p1
         > p5 end s5
         > p5 end s5",
    );
}

#[test]
fn a_segment_waits_for_its_partition_and_neighbors_do_not() {
    let config = Config { small_partition: 8, ..Config::embedded() };
    script(
        config,
        &format!(
            "{BEFORE}0s p1 configure a=all
             0s p1 tape enter \"a\"; %0 = full[i64[4]] 3; %1 = neg %0; %2 = neg %1; exit \"a\"
             > partition for s1
             > p5 open s2 of s1 (pi, pid 1)
             > p6 open s3 of s1 (pi, pid 1)
             0s p1 tape %3 = neg %2; free %2
             0s p1 fetch r1 %0
             0s p1 configure a=1
             0s p1 tape enter \"a\"; %4 = full[i64[4]] 3; exit \"a\"
             0s p2 hello
             > p2 welcome s4
             0s p2 tape %0 = full[i64[4]] 4
             > p5 open s4 of s4 (pi, pid 2)
             > p5 run s4 #0 a0: %0 = full[i64[4]] 4 : i64[4]
             0s made
             > p5 run s2 #0 a0: %+0 = full[i64[2]] 3 : i64[2]; %+1 = neg %+0 : i64[2]; \
             %+2 = neg %+1 : i64[2]
             > p5 run s2 #1 a0: %+6 = input : i64[2]; %+7 = cat[0] %+0, %+6; free %+6
             > p5 fetch s2 r1 %+7
             > p5 run s2 #2 a0: free %+7
             > p5 run s2 #3 a0: %+8 = neg %+2; free %+2
             > p6 run s3 #0 a0: %+3 = full[i64[2]] 3 : i64[2]; %+4 = neg %+3 : i64[2]; \
             %+5 = neg %+4 : i64[2]
             > p6 fetch s3 r+1 %+3
             > p6 run s3 #1 a0: %+9 = neg %+5; free %+5
             > p6 run s3 #2 a0: %+10 = full[i64[4]] 3 : i64[4]
             0s p1 tape enter \"a\"; %5 = full[i64[4]] 3; %6 = neg %5; %7 = neg %6; exit \"a\"
             > partition for s1
             0s p6 lost
             > forget p6
             > p1 failed r1: worker w2 (pi, pid 6) was lost with the values it held: its process \
             ended
             > p5 end s2
             > p5 end s2
             0s made
             0s p1 fetch r2 %7
             > p1 failed r2: worker w2 (pi, pid 6) was lost with the values it held: its process \
             ended"
        ),
    );
}

/// Two workers and a client that asks for a plan connect.
const ASKING: &str = "0s p5 hello
    > p5 welcome w1
    0s p5 register at pi:1
    0s p6 hello
    > p6 welcome w2
    0s p6 register at pi:2
    0s p1 hello asking auto
    > p1 welcome s1
    ";

#[test]
fn a_session_that_asks_for_a_plan_is_spread_if_that_is_faster() {
    let config = Config { small_partition: 8, ..Config::embedded() };
    script(
        config,
        &format!(
            "{ASKING}0s p1 tape %0 = full[f32[2048,2048]] 3; %1 = full[f32[2048,2048]] 4
             > p5 open s1 of s1 (pi, pid 1)
             > p5 run s1 #0 a0: %0 = full[f32[2048,2048]] 3 : f32[2048,2048]; %1 = \
             full[f32[2048,2048]] 4 : f32[2048,2048]
             0s p1 define t0 %2 = matmul %0, %1
             > p5 define s1 t0 of 1 entries
             0s p1 launch t0 %0 %1 to %2+1
             > partition for s1
             0s p1 tape free %2
             0s p1 fetch r1 %0
             0s p2 hello
             > p2 welcome s2
             0s p2 tape %0 = full[i64[4]] 4
             > p6 open s2 of s2 (pi, pid 2)
             > p6 run s2 #0 a0: %0 = full[i64[4]] 4 : i64[4]
             0s made
             > p5 forget s1 t0
             > p5 define s1 t1 of 1 entries
             > p5 define s1 t2 of 2 entries
             > p5 learn s1 t0: t1 on $0 to ~0 with; r~0 $0 to s3 ~2; r~1 $1 to s3 ~3; t2 on ~0 $1 \
             to ~1 with
             > p5 perform s1 #1 a0 t0: [%0, %1] from %+0 r+1 with []
             > p5 run s1 #3 a0: free %+1
             > p5 fetch s1 r1 %0
             > p6 open s3 of s1 (pi, pid 1)
             > p6 define s3 t1 of 5 entries
             > p6 learn s3 t0: t1 on  to ~2 with
             > p6 perform s3 #0 a0 t0: [] from %+0 r+1 with []
             > p6 run s3 #1 a0: free %+5"
        ),
    );
}

#[test]
fn a_session_that_asks_for_a_plan_stays_on_one_worker_if_that_is_faster() {
    let config = Config { small_partition: 8, ..Config::embedded() };
    script(
        config,
        &format!(
            "{ASKING}0s p1 tape %0 = full[f32[2]] 3
             > p5 open s1 of s1 (pi, pid 1)
             > p5 run s1 #0 a0: %0 = full[f32[2]] 3 : f32[2]
             0s p1 define t0 %1 = neg %0
             > p5 define s1 t0 of 1 entries
             0s p1 launch t0 %0 to %1+1
             > partition for s1
             0s p1 launch t0 %1 to %2+1
             0s made
             > p5 launch s1 #1 a0 t0: [%0] to [%1] with []
             > p5 launch s1 #2 a0 t0: [%1] to [%2] with []
             0s p1 launch t0 %2 to %3+1
             > p5 launch s1 #3 a0 t0: [%2] to [%3] with []
             0s p7 hello
             > p7 welcome w3
             0s p7 register
             0s p1 launch t0 %3 to %4+1
             > partition for s1
             0s p1 close
             > forget p1
             > p5 end s1
             > p5 end s1
             0s made"
        ),
    );
}

#[test]
fn an_error_travels_to_the_members_that_need_the_value() {
    dialogue(
        "0s p1 configure a=all
         0s p1 chunk %0 i64[4] 0 32
         > p5 open s2 of s1 (pi, pid 1)
         > p5 chunk s2 %0 0
         > p6 open s3 of s1 (pi, pid 1)
         0s p1 tape enter \"a\"; %0 = input : i64[4]; %1 = neg %0; exit \"a\"
         > p5 run s2 #0 a0: %0 = input : i64[4]
         > p5 run s2 #1 a0: %+0 = slice[0,0,2,1] %0; %+1 = slice[0,2,4,1] %0; free \
         %0
         > p5 fetch s2 r+1 %+1
         > p5 run s2 #2 a0: free %+1; %+2 = neg %+0
         > p6 run s3 #0 a0: %+3 = input : i64[2]; %+4 = neg %+3 : i64[2]
         0s p1 fetch r1 %1
         > p5 run s2 #3 a0: %+5 = input : i64[2]; %+6 = cat[0] %+2, %+5; free %+5
         > p5 fetch s2 r1 %+6
         > p5 run s2 #4 a0: free %+6
         > p6 fetch s3 r+2 %+4
         0s p5 failed s2 r+1
         > p6 fail s3 %+3: index 9 is out of range
         0s p6 failed s3 r+2
         > p5 fail s2 %+5: index 9 is out of range
         0s p5 failed s2 r1
         > p1 failed r1: index 9 is out of range
         0s p5 chunk s2 r+1 %+1 i64[2] 0 16",
    );
}

/// Two workers that reach each other, and a client.
const ROADS: &str = "0s p5 hello
    > p5 welcome w1
    0s p5 register at pi:1
    0s p6 hello
    > p6 welcome w2
    0s p6 register at pi:2
    0s p1 hello
    > p1 welcome s1
    ";

#[test]
fn what_fails_or_cannot_take_its_road_in_a_performance_goes_through_the_dispatcher() {
    script(
        Config::embedded(),
        &format!(
            "{ROADS}0s p1 configure a=all
             0s p1 define t0 enter \"a\"; %1 = neg %0; exit \"a\"
             > p5 open s2 of s1 (pi, pid 1)
             > p6 open s3 of s1 (pi, pid 1)
             0s p1 chunk %0 i64[4] 0 32
             > p5 chunk s2 %0 0
             0s p1 tape %0 = input : i64[4]
             > p5 run s2 #0 a0: %0 = input : i64[4]
             0s p1 launch t0 %0 to %1+1
             > p5 define s2 t1 of 1 entries
             > p5 learn s2 t0: r~0 $0 to s3 ~1; t1 on $0 to ~0 with
             > p5 perform s2 #1 a0 t0: [%0] from %+0 r+1 with []
             > p6 define s3 t1 of 2 entries
             > p6 learn s3 t0: t1 on  to ~1 with
             > p6 perform s3 #0 a0 t0: [] from %+0 r+1 with []
             0s p5 performed s2 #1 r+1 0 arrived=0
             0s p5 failed s2 r+1
             0s p5 performed s2 #1 r+1 1 over
             0s p6 performed s3 #0 r+1 1 over
             0s p1 chunk %2 i64[4] 0 32
             > p5 chunk s2 %2 0
             0s p1 tape %2 = input : i64[4]
             > p5 run s2 #2 a0: %2 = input : i64[4]
             0s p1 launch t0 %2 to %3+1
             > p5 perform s2 #3 a0 t0: [%2] from %+3 r+2 with []
             > p6 perform s3 #1 a0 t0: [] from %+3 r+2 with []
             0s p6 failed s3 r+2
             0s p5 failed s2 r+2
             > p6 fail s3 %+4: index 9 is out of range
             0s p5 chunk s2 r+2 %2 i64[4] 0 32
             0s p5 performed s2 #3 r+2 1 over
             0s p1 chunk %4 i64[4] 0 32
             > p5 chunk s2 %4 0
             0s p1 tape %4 = input : i64[4]
             > p5 run s2 #4 a0: %4 = input : i64[4]
             0s p1 launch t0 %4 to %5+1
             > p5 perform s2 #5 a0 t0: [%4] from %+6 r+3 with []
             > p6 perform s3 #2 a0 t0: [] from %+6 r+3 with []
             0s p5 chunk s2 r+3 %4 i64[4] 0 16
             > p6 chunk s3 %+7 0
             0s p5 performed s2 #5 r+3 1 over returned=0
             0s p5 chunk s2 r+3 %4 i64[4] 16 16
             > p6 chunk s3 %+7 16
             0s p1 chunk %6 i64[4] 0 32
             > p5 chunk s2 %6 0
             0s p1 tape %6 = input : i64[4]
             > p5 run s2 #6 a0: %6 = input : i64[4]
             0s p1 launch t0 %6 to %7+1
             > p5 perform s2 #7 a0 t0: [%6] from %+9 r+4 with []
             > p6 perform s3 #3 a0 t0: [] from %+9 r+4 with []
             0s p5 performed s2 #7 r+4 1 over returned=0
             0s p5 chunk s2 r+4 %6 i64[4] 0 32
             > p6 chunk s3 %+10 0
             0s p1 chunk %8 i64[4] 0 32
             > p5 chunk s2 %8 0
             0s p1 tape %8 = input : i64[4]
             > p5 run s2 #8 a0: %8 = input : i64[4]
             0s p1 launch t0 %8 to %9+1
             > p5 perform s2 #9 a0 t0: [%8] from %+12 r+5 with []
             > p6 perform s3 #4 a0 t0: [] from %+12 r+5 with []
             0s p5 performed s2 #9 r+5 1 over
             0s p5 chunk s2 r+5 %8 i64[4] 0 32"
        ),
    );
}

#[test]
fn a_signal_that_names_more_workers_than_there_are_is_told_so_once() {
    dialogue(
        "0s p1 configure a=0,1,2
         0s p1 tape enter \"a\"; %0 = full[i64[4]] 3; exit \"a\"
         > p1 warning: signal \"a\" names 3 workers, but 2 are connected
         > p5 open s2 of s1 (pi, pid 1)
         > p5 run s2 #0 a0: %+0 = full[i64[2]] 3 : i64[2]
         > p6 open s3 of s1 (pi, pid 1)
         > p6 run s3 #0 a0: %+1 = full[i64[2]] 3 : i64[2]
         0s p1 tape enter \"a\"; %1 = full[i64[4]] 3; exit \"a\"
         > p5 run s2 #1 a0: %+2 = full[i64[2]] 3 : i64[2]
         > p6 run s3 #1 a0: %+3 = full[i64[2]] 3 : i64[2]
         0s p7 hello
         > p7 welcome w3
         0s p7 register
         0s p1 tape enter \"a\"; %2 = full[i64[4]] 3; exit \"a\"
         > p5 run s2 #2 a0: %+4 = full[i64[2]] 3 : i64[2]
         > p6 run s3 #2 a0: %+5 = full[i64[2]] 3 : i64[2]
         > p7 open s4 of s1 (pi, pid 1)
         > p7 run s4 #0 a0: %+6 = full[i64[0]] 3 : i64[0]",
    );
}

#[test]
fn a_client_that_leaves_in_the_middle_of_an_exchange_leaves_nothing() {
    dialogue(
        "0s p1 configure a=all
         0s p1 chunk %0 i64[4] 0 32
         > p5 open s2 of s1 (pi, pid 1)
         > p5 chunk s2 %0 0
         > p6 open s3 of s1 (pi, pid 1)
         0s p1 tape enter \"a\"; %0 = input : i64[4]; %1 = neg %0; exit \"a\"
         > p5 run s2 #0 a0: %0 = input : i64[4]
         > p5 run s2 #1 a0: %+0 = slice[0,0,2,1] %0; %+1 = slice[0,2,4,1] %0; free \
         %0
         > p5 fetch s2 r+1 %+1
         > p5 run s2 #2 a0: free %+1; %+2 = neg %+0
         > p6 run s3 #0 a0: %+3 = input : i64[2]; %+4 = neg %+3 : i64[2]
         0s p5 chunk s2 r+1 %+1 i64[2] 0 8
         > p6 chunk s3 %+3 0
         0s p1 lost
         > forget p1
         > p5 end s2
         > p5 end s2
         > p6 end s3
         > p6 end s3
         0s p5 chunk s2 r+1 %+1 i64[2] 8 8
         0s p6 done s3 #0 a0
         0s p6 failed s3 r+1",
    );
}

#[test]
fn a_session_that_breaks_in_the_middle_of_an_exchange_ends_on_all_members() {
    dialogue(
        "0s p1 configure a=all
         0s p1 chunk %0 i64[4] 0 32
         > p5 open s2 of s1 (pi, pid 1)
         > p5 chunk s2 %0 0
         > p6 open s3 of s1 (pi, pid 1)
         0s p1 tape enter \"a\"; %0 = input : i64[4]; %1 = neg %0; exit \"a\"
         > p5 run s2 #0 a0: %0 = input : i64[4]
         > p5 run s2 #1 a0: %+0 = slice[0,0,2,1] %0; %+1 = slice[0,2,4,1] %0; free \
         %0
         > p5 fetch s2 r+1 %+1
         > p5 run s2 #2 a0: free %+1; %+2 = neg %+0
         > p6 run s3 #0 a0: %+3 = input : i64[2]; %+4 = neg %+3 : i64[2]
         0s p5 chunk s2 r+1 %+1 i64[2] 0 8
         > p6 chunk s3 %+3 0
         0s p1 tape %2 = neg %9
         > p5 end s2
         > p5 end s2
         > p6 end s3
         > p6 end s3
         0s p5 chunk s2 r+1 %+1 i64[2] 8 8
         0s p1 fetch r1 %1
         > p1 failed r1: the server refused entry 0 of segment 1: neg: %9 is not alive; hint: it \
         was freed, or never defined",
    );
}

#[test]
fn a_member_that_sends_other_data_than_was_asked_for_fails_one_value() {
    dialogue(
        "0s p1 configure a=all
         0s p1 chunk %0 i64[4] 0 32
         > p5 open s2 of s1 (pi, pid 1)
         > p5 chunk s2 %0 0
         > p6 open s3 of s1 (pi, pid 1)
         0s p1 tape enter \"a\"; %0 = input : i64[4]; %1 = neg %0; exit \"a\"
         > p5 run s2 #0 a0: %0 = input : i64[4]
         > p5 run s2 #1 a0: %+0 = slice[0,0,2,1] %0; %+1 = slice[0,2,4,1] %0; free \
         %0
         > p5 fetch s2 r+1 %+1
         > p5 run s2 #2 a0: free %+1; %+2 = neg %+0
         > p6 run s3 #0 a0: %+3 = input : i64[2]; %+4 = neg %+3 : i64[2]
         0s p6 chunk s3 r+1 %+1 i64[2] 0 16
         0s p5 chunk s2 r+1 %+1 i64[2] 8 8
         > p6 fail s3 %+3: member 0 sent other data than was asked for
         0s p5 chunk s2 r+1 %+1 i64[2] 0 16",
    );
}

#[test]
fn values_that_the_server_names_are_not_the_clients_to_name() {
    dialogue(
        "0s p1 configure a=all
         0s p1 tape enter \"a\"; %4611686018427387904 = full[i64[4]] 3; exit \"a\"
         0s p1 fetch r1 %+0
         > p1 failed r1: values from %+0 on are named by the server; hint: number the values of a \
         session from %0 on",
    );
}

#[test]
fn a_read_that_waits_for_a_member_names_it() {
    dialogue(
        "0s p1 configure a=all
         0s p1 tape enter \"a\"; %0 = full[i64[4]] 3; exit \"a\"
         > p5 open s2 of s1 (pi, pid 1)
         > p5 run s2 #0 a0: %+0 = full[i64[2]] 3 : i64[2]
         > p6 open s3 of s1 (pi, pid 1)
         > p6 run s3 #0 a0: %+1 = full[i64[2]] 3 : i64[2]
         0s p1 fetch r1 %0
         > p5 run s2 #1 a0: %+2 = input : i64[2]; %+3 = cat[0] %+0, %+2; free %+2
         > p5 fetch s2 r1 %+3
         > p5 run s2 #2 a0: free %+3
         > p6 fetch s3 r+1 %+1
         0s p5 done s2 #0 a0
         700s tick
         > p1 failed r1: worker w2 (pi, pid 6) has reported nothing about this session for 600 s",
    );
}

#[test]
fn a_session_that_asks_for_workers_at_run_time_keeps_its_values() {
    dialogue(
        "0s p1 define t0 enter \"a\"; %0 = full[i64[4]] 0; exit \"a\"
         > p5 open s1 of s1 (pi, pid 1)
         > p5 define s1 t0 of 3 entries
         0s p1 launch t0 to %0+1 with 7
         > p5 launch s1 #0 a0 t0: [] to [%0] with [I64(7)]
         0s p1 configure a=all
         0s p1 launch t0 to %1+1 with 8
         > p5 forget s1 t0
         > p5 define s1 t1 of 1 entries
         > p5 learn s1 t0: t1 on  to ~0 with #0
         > p5 perform s1 #1 a0 t0: [] from %+0 r+1 with [I64(8)]
         > p6 open s2 of s1 (pi, pid 1)
         > p6 define s2 t1 of 1 entries
         > p6 learn s2 t0: t1 on  to ~1 with #0
         > p6 perform s2 #0 a0 t0: [] from %+0 r+1 with [I64(8)]
         0s p5 done s1 #0 a0
         0s p1 tape %2 = add %0, %1
         > p5 run s1 #2 a0: %+2 = slice[0,0,2,1] %0; %+3 = slice[0,2,4,1] %0; free \
         %0
         > p5 fetch s1 r+2 %+3
         > p5 run s1 #3 a0: free %+3; %+4 = add %+2, %+0
         > p6 run s2 #1 a0: %+5 = input : i64[2]; %+6 = add %+5, %+1
         0s p1 configure
         0s p1 launch t0 to %3+1 with 9
         > p5 forget s1 t0
         > p5 forget s1 t1
         > p5 define s1 t3 of 1 entries
         > p5 learn s1 t2: t3 on  to ~0 with #0
         > p5 perform s1 #4 a0 t2: [] from %+7 r+3 with [I64(9)]
         > p6 forget s2 t0
         > p6 forget s2 t1
         0s p1 fetch r1 %0
         > p5 run s1 #5 a0: %+8 = input : i64[2]; %+9 = cat[0] %+2, %+8; free %+8
         > p5 fetch s1 r1 %+9
         > p5 run s1 #6 a0: free %+9
         > p6 fetch s2 r+4 %+5
         0s p5 chunk s1 r1 %+9 i64[4] 0 32
         > p1 chunk r1 %0 0",
    );
}

#[test]
fn credit_comes_back_when_the_last_member_has_run_the_segment() {
    let mut driver = Driver::new(Config::embedded());
    after(&mut driver, BEFORE);
    let mut held = |line: &str| {
        driver.line(line);
        driver.dispatcher.peers[&PeerId(1)].connection.link(Stream::Control).held()
    };
    assert_eq!(held("0s p1 configure a=all"), 0);
    let one = held("0s p1 tape enter \"a\"; %0 = full[i64[4]] 3; exit \"a\"");
    assert_eq!(held("0s p1 tape enter \"a\"; %1 = full[i64[4]] 3; exit \"a\""), 2 * one);
    assert_eq!(held("0s p5 done s2 #0 a0"), 2 * one);
    assert_eq!(held("0s p5 done s2 #1 a0"), 2 * one);
    assert_eq!(held("0s p6 done s3 #0 a0"), one);
    assert_eq!(held("0s p6 lost"), 0);
}

#[test]
fn an_error_has_the_name_of_its_worker_and_no_name_of_the_dispatchers_own() {
    let mut driver = Driver::new(Config::embedded());
    after(&mut driver, BEFORE);
    let lines = "0s p1 configure a=all
        0s p1 tape enter \"a\"; %0 = full[i64[4]] 3; exit \"a\"
        0s p1 fetch r1 %0
        0s p6 failed s3 r+1";
    let actions = after(&mut driver, lines);
    assert_eq!(error(&actions).worker.as_deref(), Some("w2 (pi, pid 6)"));
    let actions = after(&mut driver, "0s p5 failed s2 r1 %+3");
    assert_eq!(error(&actions).value, Some(ValueId(0)));
}

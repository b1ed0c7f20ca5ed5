//! Dialogues about the choice of workers: demands, better workers that join, and statistics of
//! workers that a session has left.

use super::driver::script;
use crate::dispatcher::Config;

fn dialogue(text: &str) {
    script(Config::embedded(), text);
}

#[test]
fn a_session_lives_on_a_worker_that_it_asks_for() {
    dialogue(
        "0s p5 hello
         > p5 welcome w1
         0s p5 register cpu 64
         0s p6 hello
         > p6 welcome w2
         0s p6 register cuda:0 1
         0s p1 hello asking device=cpu
         > p1 welcome s1
         0s p1 tape %0 = full[i64[2]] 3
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p2 hello
         > p2 welcome s2
         0s p2 tape %0 = full[i64[2]] 3
         > p6 open s2 of s2 (pi, pid 2)
         > p6 run s2 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p3 hello asking device=cuda engine=e
         > p3 welcome s3
         0s p3 tape %0 = full[i64[2]] 3
         > p6 open s3 of s3 (pi, pid 3)
         > p6 run s3 #0 a0: %0 = full[i64[2]] 3 : i64[2]",
    );
}

#[test]
fn where_no_worker_can_join_a_demand_that_none_meets_is_an_error_at_once() {
    dialogue(
        "0s p1 hello asking device=cuda:1
         > p1 welcome s1
         0s p1 tape %0 = full[i64[2]] 3
         0s p1 fetch r1 %0
         0s p5 hello
         > p5 welcome w1
         0s p5 register cpu 8
         > p1 failed r1: no worker has device cuda:1: the workers are w1 (pi, pid 5) (e on cpu, \
         8 threads); hint: start one with `gt-cli worker --device cuda:1`, or ask for one of these
         0s p2 hello asking engine=torch
         > p2 welcome s2
         0s p2 tape %0 = full[i64[2]] 3
         0s p2 fetch r1 %0
         > p2 failed r1: no worker has engine torch: the workers are w1 (pi, pid 5) (e on cpu, \
         8 threads); hint: start one with `gt-cli worker --engine torch`, or ask for one of these",
    );
}

#[test]
fn a_session_waits_for_a_worker_that_it_asks_for_and_hears_which_there_are() {
    script(
        Config { may_grow: true, ..Config::embedded() },
        "0s p5 hello
         > p5 welcome w1
         0s p5 register cpu 8
         0s p1 hello asking device=cuda:1
         > p1 welcome s1
         0s p1 tape %0 = full[i64[2]] 3
         > p1 warning: the program waits for a worker with device cuda:1: the workers are \
         w1 (pi, pid 5) (e on cpu, 8 threads)
         0s p1 fetch r1 %0
         1s p6 hello
         > p6 welcome w2
         1s p6 register cuda:0 1
         9s tick
         10s tick
         > p1 failed r1: no worker has device cuda:1, and none came within 10 s: the workers are \
         w1 (pi, pid 5) (e on cpu, 8 threads), w2 (pi, pid 6) (e on cuda:0, 1 threads); hint: \
         start one with `gt-cli worker --device cuda:1`, or ask for one of these
         11s p1 fetch r2 %0
         12s p7 hello
         > p7 welcome w3
         12s p7 register cuda:1 1
         > p7 open s1 of s1 (pi, pid 1)
         > p7 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         > p7 fetch s1 r2 %0
         13s p7 lost
         > forget p7
         > p1 failed r2: worker w3 (pi, pid 7) was lost with the values it held: its process ended
         14s p1 tape %1 = full[i64[2]] 3
         > p1 warning: the program waits for a worker with device cuda:1: the workers are \
         w1 (pi, pid 5) (e on cpu, 8 threads), w2 (pi, pid 6) (e on cuda:0, 1 threads)
         15s p1 close
         > forget p1",
    );
}

#[test]
fn signals_spread_a_session_over_the_workers_it_asks_for() {
    dialogue(
        "0s p5 hello
         > p5 welcome w1
         0s p5 register cpu 1
         0s p6 hello
         > p6 welcome w2
         0s p6 register cuda:0 1
         0s p7 hello
         > p7 welcome w3
         0s p7 register cuda:1 1
         0s p8 hello
         > p8 welcome w4
         0s p8 register cuda:2 1
         0s p1 hello asking device=cuda workers=2
         > p1 welcome s1
         0s p1 configure a=all
         0s p1 tape enter \"a\"; %0 = full[i64[2]] 3; exit \"a\"
         > p6 open s2 of s1 (pi, pid 1)
         > p6 run s2 #0 a0: %+0 = full[i64[1]] 3 : i64[1]
         > p7 open s3 of s1 (pi, pid 1)
         > p7 run s3 #0 a0: %+1 = full[i64[1]] 3 : i64[1]
         0s p2 hello asking device=cpu workers=2
         > p2 welcome s4
         0s p2 configure a=all
         0s p2 tape enter \"a\"; %0 = full[i64[2]] 3; exit \"a\"
         > p2 warning: 2 workers were asked for, and 1 of them are there
         > p5 open s4 of s4 (pi, pid 2)
         > p5 run s4 #0 a0: enter \"a\"; %0 = full[i64[2]] 3 : i64[2]; exit \"a\"",
    );
}

#[test]
fn a_session_that_holds_nothing_moves_to_a_better_worker() {
    dialogue(
        "0s p5 hello
         > p5 welcome w1
         0s p5 register cpu 8
         0s p1 hello
         > p1 welcome s1
         0s p1 define t0 %0 = full[i64[2]] 0
         > p5 open s1 of s1 (pi, pid 1)
         > p5 define s1 t0 of 1 entries
         0s p1 launch t0 to %0+1 with 7
         > p5 launch s1 #0 a0 t0: [] to [%0] with [I64(7)]
         0s p1 tape free %0
         > p5 run s1 #1 a0: free %0
         0s p2 hello
         > p2 welcome s2
         0s p2 tape %0 = full[i64[2]] 3
         > p5 open s2 of s2 (pi, pid 2)
         > p5 run s2 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p5 done s1 #0 a0
         0s p6 hello
         > p6 welcome w2
         0s p6 register cpu 9
         0s p5 done s1 #1 a0
         0s p5 done s2 #0 a0
         0s p7 hello
         > p7 welcome w3
         0s p7 register cuda:0 1
         > p5 end s1
         > p5 end s1
         0s p1 launch t0 to %1+1 with 8
         > p7 open s3 of s1 (pi, pid 1)
         > p7 define s3 t0 of 1 entries
         > p7 launch s3 #2 a0 t0: [] to [%1] with [I64(8)]
         0s p5 done s1 #1 a0
         0s p1 stats r1
         > p7 stats s3 r1
         0s p7 stats s3 r1
         > p1 stats r1 2 segments on w1 (pi, pid 5)
         0s p1 close
         > forget p1
         > p7 end s3
         > p7 end s3",
    );
}

#[test]
fn a_session_that_holds_nothing_stays_where_no_worker_is_better() {
    dialogue(
        "0s p5 hello
         > p5 welcome w1
         0s p5 register cpu 8
         0s p1 hello asking device=cpu
         > p1 welcome s1
         0s p1 tape %0 = full[i64[2]] 3; free %0
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]; free %0
         0s p5 done s1 #0 a0
         0s p6 hello
         > p6 welcome w2
         0s p6 register cpu 8
         0s p7 hello
         > p7 welcome w3
         0s p7 register cuda:0 8
         0s p1 tape %1 = full[i64[2]] 3
         > p5 run s1 #1 a0: %1 = full[i64[2]] 3 : i64[2]",
    );
}

#[test]
fn a_session_may_come_back_to_a_worker_that_it_has_left() {
    dialogue(
        "0s p5 hello
         > p5 welcome w1
         0s p5 register cpu 8
         0s p1 hello
         > p1 welcome s1
         0s p1 tape %0 = full[i64[2]] 3; free %0
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]; free %0
         0s p5 done s1 #0 a0
         0s p6 hello
         > p6 welcome w2
         0s p6 register cuda:0 1
         > p5 end s1
         > p5 end s1
         0s p6 lost
         > forget p6
         0s p1 tape %1 = full[i64[2]] 3
         > p5 open s2 of s1 (pi, pid 1)
         > p5 run s2 #1 a0: %1 = full[i64[2]] 3 : i64[2]",
    );
}

#[test]
fn the_workers_of_a_session_that_holds_nothing_are_numbered_as_they_joined() {
    dialogue(
        "0s p5 hello
         > p5 welcome w1
         0s p5 register cpu 1
         0s p6 hello
         > p6 welcome w2
         0s p6 register cpu 8
         0s p1 hello
         > p1 welcome s1
         0s p1 tape %0 = full[i64[2]] 3; free %0
         > p6 open s1 of s1 (pi, pid 1)
         > p6 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]; free %0
         0s p6 done s1 #0 a0
         0s p1 configure a=0 b=1
         0s p1 tape enter \"a\"; %1 = full[i64[2]] 3; exit \"a\"
         > p5 open s2 of s1 (pi, pid 1)
         > p5 run s2 #0 a0: %+0 = full[i64[2]] 3 : i64[2]
         > p6 end s1
         > p6 open s3 of s1 (pi, pid 1)
         > p6 end s1",
    );
}

#[test]
fn a_lost_member_is_counted_with_its_own_work() {
    dialogue(
        "0s p5 hello
         > p5 welcome w1
         0s p5 register
         0s p6 hello
         > p6 welcome w2
         0s p6 register
         0s p1 hello
         > p1 welcome s1
         0s p1 configure a=0 b=1
         0s p1 tape enter \"a\"; %0 = full[i64[2]] 3; exit \"a\"
         > p5 open s2 of s1 (pi, pid 1)
         > p5 run s2 #0 a0: %+0 = full[i64[2]] 3 : i64[2]
         > p6 open s3 of s1 (pi, pid 1)
         0s p1 tape enter \"a\"; %1 = full[i64[2]] 3; exit \"a\"
         > p5 run s2 #1 a0: %+1 = full[i64[2]] 3 : i64[2]
         0s p1 tape enter \"b\"; %2 = full[i64[2]] 3; exit \"b\"
         > p6 run s3 #0 a0: %+2 = full[i64[2]] 3 : i64[2]
         0s p5 done s2 #0 a0
         0s p5 done s2 #1 a0
         0s p6 done s3 #0 a0
         0s p6 lost
         > forget p6
         > p5 end s2
         > p5 end s2
         0s p1 stats r1
         > p1 stats r1 2 segments on w1 (pi, pid 5) 1 segments on w2 (pi, pid 6) signals a b",
    );
}

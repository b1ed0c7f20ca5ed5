//! Dialogues about who connects: hellos, late packets and strangers.

use super::driver::script;
use crate::dispatcher::Config;
use crate::wire::PROTOCOL;

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

//! Dialogues about templates and launches.

use super::{Config, script, served};

/// `-(x + literal)`; everything but the result is freed.
const LOOP: &str = "%1 = add %0, 0; %2 = neg %1; free %0; free %1";

#[test]
fn a_template_is_launched_by_its_number() {
    served(
        Config::embedded(),
        &format!(
            "0s p1 tape %0 = full[i64[2]] 3
             > p5 open s1 of s1 (pi, pid 1)
             > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]
             0s p1 define t3 {LOOP}
             > p5 define s1 t3 of 4 entries
             0s p1 launch t3 %0 to %1+2 with 7
             > p5 launch s1 #1 a0 t3: [%0] to [%1, %2] with [I64(7)]
             0s p1 launch t3 %2 to %3+2 with 8
             > p5 launch s1 #2 a0 t3: [%2] to [%3, %4] with [I64(8)]
             0s p1 fetch r1 %2
             > p1 failed r1: cannot read %2: it was freed, or never computed
             0s p1 fetch r2 %4
             > p5 fetch s1 r2 %4
             0s p1 forget t3
             > p5 forget s1 t3
             0s p1 launch t3 %4 to %5+2 with 9
             > p1 failed r2: the server refused a launch of template 3: it is not defined; hint: \
             define a template before its first launch, and again after it was forgotten
             > p5 end s1
             > p5 end s1"
        ),
    );
}

#[test]
fn a_launch_that_does_not_fit_breaks_its_session_and_says_why() {
    let refused = "> p5 end s1\n> p5 end s1";
    let why = |launches: &str, message: &str| {
        served(
            Config::embedded(),
            &format!(
                "0s p1 tape %0 = full[i64[2]] 3; %1 = full[i64[2]] 3
                 > p5 open s1 of s1 (pi, pid 1)
                 > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]; %1 = full[i64[2]] 3 : i64[2]
                 0s p1 define t0 {LOOP}
                 > p5 define s1 t0 of 4 entries
                 {launches}
                 {refused}
                 0s p1 fetch r1 %0
                 > p1 failed r1: the server refused {message}"
            ),
        );
    };
    let bind = "hint: bind values and literals in the order of the tape that defined the template";
    let launch = "a launch of template 0";
    why(
        "0s p1 launch t0 %0 %1 to %2+2 with 7",
        &format!("{launch}: 2 values given for a template that takes 1; {bind}"),
    );
    why(
        "0s p1 launch t0 %0 to %2+3 with 7",
        &format!("{launch}: 3 definitions given for a template that takes 2; {bind}"),
    );
    why(
        "0s p1 launch t0 %0 to %2+2",
        &format!("{launch}: 0 literals given for a template that takes 1; {bind}"),
    );
    why(
        "0s p1 launch t0 %7 to %8+2 with 7",
        "entry 0 of segment 1: add: %7 is not alive; hint: it was freed, or never defined",
    );
    let first = "0s p1 launch t0 %0 to %2+2 with 7
        > p5 launch s1 #1 a0 t0: [%0] to [%2, %3] with [I64(7)]";
    // Launches that do not fit the variant: of a freed input, and with a value defined before.
    why(
        &format!("{first}\n0s p1 launch t0 %0 to %4+2 with 7"),
        "entry 0 of segment 2: add: %0 is not alive; hint: it was freed, or never defined",
    );
    why(
        &format!("{first}\n0s p1 launch t0 %3 to %1+2 with 7"),
        "entry 0 of segment 2: second definition of %1",
    );
}

#[test]
fn a_template_of_no_canonical_form_or_number_is_refused() {
    let why = |define: &str, message: &str| {
        script(
            Config::embedded(),
            &format!(
                "0s p1 hello
                 > p1 welcome s1
                 0s p1 define {define}
                 0s p1 fetch r1 %0
                 > p1 failed r1: the server refused a template: {message}"
            ),
        );
    };
    why(
        "t64 free %0",
        "template number 64 is not below the limit of 64; hint: reuse the number of a forgotten \
         template",
    );
    why(
        "t0 %5 = neg %0; free %0",
        "template 0: entry 0 is not in canonical form; hint: send it as a tape, or renumber its \
         values by first use",
    );
}

#[test]
fn a_new_home_is_told_the_templates_it_needs() {
    script(
        Config::embedded(),
        &format!(
            "0s p1 hello
             > p1 welcome s1
             0s p1 define t1 {LOOP}
             0s p1 define t2 %0 = full[i64[2]] 0
             0s p1 launch t2 to %0+1 with 3
             0s p1 launch t1 %0 to %1+2 with 7
             0s p5 hello
             > p5 welcome w1
             0s p5 register
             > p5 open s1 of s1 (pi, pid 1)
             > p5 define s1 t1 of 4 entries
             > p5 define s1 t2 of 1 entries
             > p5 launch s1 #0 a0 t2: [] to [%0] with [I64(3)]
             > p5 launch s1 #1 a0 t1: [%0] to [%1, %2] with [I64(7)]
             0s p6 hello
             > p6 welcome w2
             0s p6 register
             1s p5 lost
             > forget p5
             1s p1 launch t1 %2 to %3+2 with 7
             > p6 open s1 of s1 (pi, pid 1)
             > p6 run s1 #2 a1:
             1s p1 fetch r1 %4
             > p1 failed r1: worker w1 (pi, pid 5) was lost with the values it held: its process \
             ended
             1s p1 tape free %4
             > p6 run s1 #3 a1:
             1s p1 launch t2 to %5+1 with 4
             > p6 define s1 t2 of 1 entries
             > p6 launch s1 #4 a1 t2: [] to [%5] with [I64(4)]
             1s p1 launch t1 %5 to %6+2 with 7
             > p6 define s1 t1 of 4 entries
             > p6 launch s1 #5 a1 t1: [%5] to [%6, %7] with [I64(7)]
             1s p1 define t1 %0 = full[i64[1]] 0
             > p6 define s1 t1 of 1 entries
             1s p1 launch t1 to %8+1 with 1
             > p6 launch s1 #6 a1 t1: [] to [%8] with [I64(1)]"
        ),
    );
}

#[test]
fn a_launch_brings_types_not_met_before() {
    served(
        Config::embedded(),
        "0s p1 tape %0 = full[i64[2]] 3; %1 = full[i64[3]] 3
             > p5 open s1 of s1 (pi, pid 1)
             > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]; %1 = full[i64[3]] 3 : i64[3]
             0s p1 define t0 %2 = mul %0, %1
             > p5 define s1 t0 of 1 entries
             0s p1 launch t0 %0 %1 to %2+1
             > p5 end s1
             > p5 end s1
             0s p1 fetch r1 %0
             > p1 failed r1: the server refused entry 0 of segment 1: mul: shapes of i64[2] and \
         i64[3] do not broadcast; hint: shapes align from the right; sizes must be equal or 1",
    );
}

//! What may be overwritten, and when.

use gt_compiler::EngineError;
use gt_compiler::simulated::SimulationConfig;

use super::Lab;

/// A carry that is read by what replaces it, and indices that only the device knows.
const CARRY: &str = "
%0 = input : f32[4]
%1 = input : i64[3]
%2 = add %1, 1 : i64[3]
%3 = index_select[0] %0, %2 : f32[3]
%4 = sum[0] %3 : f32[]
%10 = cos %4 : f32[]
%11 = mul %10, 0.5 : f32[]
%5 = reshape[2,2] %0 : f32[2,2]
%6 = mul %5, 0.0 : f32[2,2]
%7 = add %6, %11 : f32[2,2]
%8 = matmul %7, %5 : f32[2,2]
%9 = reshape[4] %8 : f32[4]
free %0
free %1
free %2
free %3
free %4
free %5
free %6
free %7
free %8
free %10
free %11
output %9
";

#[test]
fn a_replay_that_finds_a_wrong_index_has_changed_no_input() {
    for reuses_addresses in [true, false] {
        let config = SimulationConfig { reuses_addresses, ..SimulationConfig::default() };
        carries(Lab::new(config, CARRY));
    }
}

fn carries(mut lab: Lab) {
    let mut carry = lab.give(&[0.5, 0.25, -0.25, 0.5]);
    for n in 0..40 {
        let before = lab.read(&carry);
        let wrong = n % 7 == 6;
        let indices = lab.give_indices(&[0, if wrong { 3 } else { 1 }, 2]);
        let mut given = vec![carry, indices];
        carry = match lab.engine.run(&lab.program, &mut given, &lab.scalars.clone()) {
            Ok(results) => results.into_vec().pop().unwrap(),
            Err(error) => {
                let op = "index_select[0]".to_owned();
                assert_eq!(error, EngineError::Index { op, index: 4, axis: 0, size: 4 });
                given.swap_remove(0)
            }
        };
        let half = (before[1] + before[2] + before[3]).cos() * 0.5;
        let [a, b] = [before[0] + before[2], before[1] + before[3]].map(|v| half * v);
        let wanted = if wrong { before } else { vec![a, b, a, b] };
        for (got, wanted) in lab.read(&carry).iter().zip(wanted) {
            assert!((got - wanted).abs() <= 1e-5 * wanted.abs(), "round {n}: {got} {wanted}");
        }
    }
    assert!(lab.replays() > 8, "{:?} {:?}", lab.engine.stats(), lab.engine.notes());
}

/// Each element is made of two: none may be overwritten before the other is read.
#[test]
fn what_is_read_elsewhere_is_not_overwritten_in_place() {
    let n = 64;
    let mut lab = Lab::with(
        "%0 = input : f32[4096]\n%1 = reshape[64,64] %0 : f32[64,64]\nfree %0\n%2 = \
         transpose[0,1] %1 : f32[64,64]\n%3 = sub %1, %2 : f32[64,64]\nfree %1\nfree %2\n%4 = \
         reshape[4096] %3 : f32[4096]\nfree %3\noutput %4\n",
    );
    let mut wanted: Vec<f32> = (0..n * n).map(|i| (i % 97) as f32).collect();
    let mut x = lab.give(&wanted);
    for _ in 0..8 {
        x = lab.one(vec![x]);
        wanted = (0..n * n).map(|i| wanted[i] - wanted[i % n * n + i / n]).collect();
        assert!(lab.read(&x) == wanted);
    }
}

/// Something in place before an index is known to be good, and something after.
const MIXED: &str = "
%0 = input : f32[4]
%1 = input : f32[4]
%2 = input : i64[3]
%3 = add %0, 1.0 : f32[4]
%4 = add %2, 1 : i64[3]
%5 = index_select[0] %1, %4 : f32[3]
%6 = sum[0] %5 : f32[]
%7 = add %1, %6 : f32[4]
free %0
free %1
free %2
free %4
free %5
free %6
output %3
output %7
";

#[test]
fn nothing_is_overwritten_before_every_index_is_known_to_be_good() {
    let mut lab = Lab::with(MIXED);
    let (mut a, mut b) = (lab.give(&[1.0; 4]), lab.give(&[1.0, 2.0, 3.0, 4.0]));
    for n in 0..30 {
        let before = (lab.read(&a), lab.read(&b));
        let wrong = n % 4 == 3;
        let indices = lab.give_indices(&[0, if wrong { -7 } else { 1 }, 2]);
        let mut given = vec![a, b, indices];
        let done = lab.engine.run(&lab.program, &mut given, &lab.scalars.clone());
        assert_eq!(done.is_err(), wrong, "round {n}");
        let mut now = done.map_or(given, |results| results.into_vec()).into_iter();
        (a, b) = (now.next().unwrap(), now.next().unwrap());
        let sum = before.1[1] + before.1[2] + before.1[3];
        let grown = |x: &[f32], by: f32| x.iter().map(|x| x + by).collect::<Vec<_>>();
        let wanted = if wrong { before } else { (grown(&before.0, 1.0), grown(&before.1, sum)) };
        assert_eq!((lab.read(&a), lab.read(&b)), wanted, "round {n}");
        if n % 8 == 0 {
            b = lab.give(&[1.0, 2.0, 3.0, 4.0]);
        }
    }
}

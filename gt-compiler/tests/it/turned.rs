//! Values that plans turn once, because they are read across their rows again and again: the same
//! bits as instruction by instruction, and the interpreter's numbers.

use gt_ir::testing::{Source, inputs, same_bits, special_inputs};

use crate::{
    random::native,
    sweeps::tapes::{compare, eager, fused},
};

/// Products of few rows by one transposed matrix.
fn products(dtype: &str, [m, k, n]: [usize; 3]) -> String {
    format!(
        "gt tape 1
%0 = input : {dtype}[{m},{k}]
%1 = input : {dtype}[{m},{n}]
%2 = input : {dtype}[{n},{k}]
%3 = transpose[0,1] %2
%4 = matmul %0, %3
%5 = tanh %4
%6 = matmul %5, %2
%7 = matmul %6, %3
%8 = add %7, %1
free %3
free %4
free %6
free %7
output %5
output %8
"
    )
}

/// Sums over rows of what lies column by column, for each of several others.
fn sums(dtype: &str, [batch, width, channels, each]: [usize; 4]) -> String {
    format!(
        "gt tape 1
%0 = input : {dtype}[{batch},{width},{channels}]
%1 = input : {dtype}[{channels},{each},{batch},{width}]
%2 = permute[2,0,1] %0
%3 = relu %2
%4 = reshape[{channels},1,{batch},{width}] %3
%5 = mul %1, %4
%6 = sum[2,3] %5
free %2
free %3
free %4
free %5
output %6
"
    )
}

fn check(text: &str, source: &mut Source<'_>) {
    let tape = gt_ir::text::parse(text).unwrap().0;
    for data in [inputs(&tape, source), special_inputs(&tape, source)] {
        for threads in [1, 2] {
            let mut engine = native(threads);
            let eager = eager(&mut engine, &tape, &data);
            let fused = fused(&mut engine, &tape, &data);
            for (id, want) in eager.as_ref().unwrap() {
                assert!(same_bits(want, &fused.as_ref().unwrap()[id]), "{id} of\n{text}");
            }
            compare("fused", &tape, &data, fused);
        }
    }
}

#[test]
fn products_of_few_rows() {
    let mut source = Source::from_seed(11);
    for dtype in ["f32", "f64", "bf16"] {
        for sizes in
            [[16, 64, 96], [2, 3, 5], [17, 64, 100], [64, 70, 60], [65, 70, 60], [1, 64, 64]]
        {
            check(&products(dtype, sizes), &mut source);
        }
    }
}

#[test]
fn sums_across_rows() {
    let mut source = Source::from_seed(12);
    for dtype in ["f32", "f64", "bf16", "i64"] {
        for sizes in [[4, 64, 17, 4], [3, 100, 32, 9], [2, 33, 64, 5], [8, 16, 32, 3]] {
            check(&sums(dtype, sizes), &mut source);
        }
    }
}

/// Windows of an image whose channels lie far apart, as a copy and with work on it.
fn windows(dtype: &str, [batch, channels, size, window]: [usize; 4]) -> String {
    format!(
        "gt tape 1
%0 = input : {dtype}[{batch},{channels},{size},{size}]
%1 = permute[0,2,3,1] %0
%2 = unfold[1,{window},1,1] %1
%3 = permute[0,1,4,2,3] %2
%4 = unfold[3,{window},1,1] %3
%5 = permute[0,1,3,2,5,4] %4
%6 = neg %5
free %1
free %2
free %3
free %4
output %5
output %6
"
    )
}

#[test]
fn windows_of_channels_that_lie_apart() {
    let mut source = Source::from_seed(15);
    for dtype in ["f32", "i64", "bf16"] {
        for sizes in [[3, 5, 19, 3], [2, 3, 33, 2], [4, 17, 12, 4], [1, 1, 70, 3]] {
            check(&windows(dtype, sizes), &mut source);
        }
    }
}

/// Elements moved across, and added to others that are not, or that are moved in another way.
fn moved(dtype: &str, sizes: &[usize], orders: [&[usize]; 2]) -> String {
    let list = |items: Vec<usize>| {
        let items: Vec<String> = items.iter().map(ToString::to_string).collect();
        items.join(",")
    };
    let at = |order: &[usize]| list(order.iter().map(|axis| sizes[*axis]).collect());
    let placed = |order: &[usize]| {
        let axes = 0..sizes.len();
        axes.map(|axis| order.iter().position(|a| *a == axis).unwrap()).collect()
    };
    let [a, b] = orders;
    format!(
        "gt tape 1
%0 = input : {dtype}[{}]
%1 = input : {dtype}[{}]
%2 = input : {dtype}[{}]
%3 = permute[{}] %0
%4 = permute[{}] %1
%5 = add %3, %4
%6 = maximum %5, %2
free %3
free %4
output %5
output %6
",
        at(a),
        at(b),
        list(sizes.to_vec()),
        list(placed(a)),
        list(placed(b)),
    )
}

#[test]
fn elements_that_move_across() {
    let mut source = Source::from_seed(16);
    let dtypes = ["f32", "f64", "i64", "bf16", "i32", "u8"];
    for case in 0..36 {
        let rank = 2 + case % 4;
        let most = [700, 70, 26, 12][rank - 2];
        let mut sizes: Vec<usize> = (0..rank).map(|_| 1 + source.below(most)).collect();
        if case % 3 == 0 {
            // A last axis that is cut in pieces.
            sizes[rank - 1] = 16 * (17 + source.below(8));
            sizes[0] = sizes[0].min(40);
        }
        let mut order = || {
            let mut order: Vec<usize> = (0..rank).collect();
            (1..rank).for_each(|i| order.swap(i, source.below(i + 1)));
            order
        };
        let orders = [order(), order()];
        let text = moved(dtypes[case % dtypes.len()], &sizes, [&orders[0], &orders[1]]);
        check(&text, &mut source);
    }
}

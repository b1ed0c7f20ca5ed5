//! With feature `torch` the program finds libtorch by the path that is written into it.

fn main() {
    gt_build::link_programs();
}

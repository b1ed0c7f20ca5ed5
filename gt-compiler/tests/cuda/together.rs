//! Several engines on one device, each on a thread of its own, do not disturb each other; neither
//! does a compiler beside them.

use gt_ir::{HostTensor, testing::same_bits};

use crate::{
    config, device,
    replay::{Step, batch, parameter},
};

/// The parameter after so many steps of an engine of one's own, which compiles its program anew now
/// and then.
fn trained(steps: usize) -> Option<HostTensor> {
    let mut engine = device(&config())?;
    let mut step = Step::new(engine.as_ref());
    let mut parameter = engine.upload(&parameter()).unwrap();
    for number in 0..steps {
        if number % 100 == 99 {
            step = Step::new(engine.as_ref());
        }
        let batch = engine.upload(&batch(number)).unwrap();
        parameter = step.run(engine.as_mut(), parameter, &batch, number).swap_remove(0);
    }
    Some(engine.download(&parameter).unwrap())
}

#[test]
fn two_engines_at_once_give_what_one_gives() {
    let Some(alone) = trained(400) else { return };
    let threads = [0; 3].map(|_| std::thread::spawn(|| trained(400)));
    for thread in threads {
        assert!(same_bits(&thread.join().unwrap().unwrap(), &alone));
    }
}

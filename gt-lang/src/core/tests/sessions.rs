//! Sessions: what they keep apart, when they submit, how scopes stand on their tapes.

use gt_ir::backend::Backend;
use gt_ir::{DType, Entry, ValueId};

use super::{numbers, values};
use crate::core::*;
use crate::error::ErrorKind;
use crate::reference::Reference;
use crate::signal;

#[test]
fn sessions_do_not_mix_and_close() {
    let (a, _) = Reference::session();
    let (b, system) = Reference::session();
    let x = {
        let _entered = a.enter();
        numbers(2, &[2])
    };
    let y = {
        let _outer = a.enter();
        let _inner = b.enter();
        numbers(2, &[2])
    };
    assert!(x.session().unwrap().is(&a) && y.session().unwrap().is(&b));
    assert!((&y + 1.0).session().unwrap().is(&b), "whatever is current now");
    let error = (&x + &y).item().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Session);
    assert!(
        error.message().starts_with("add: the operands belong to different sessions"),
        "{error}"
    );
    b.close();
    assert_eq!(y.item().unwrap_err().kind(), ErrorKind::Data);
    assert_eq!((&y + 1.0).sum(..).item().unwrap_err().message(), "the session is closed");
    assert_eq!(system.live(), 0);
    assert_eq!(values(&x), [0.0, 1.0]);
}

#[test]
fn a_session_closes_with_its_last_tensor() {
    let (session, system) = Reference::session();
    let x = {
        let _entered = session.enter();
        numbers(2, &[2])
    };
    drop(session);
    assert_eq!(values(&x), [0.0, 1.0]);
    drop(x);
    assert_eq!(std::sync::Arc::strong_count(&system), 1);
}

#[test]
fn segments_are_submitted_when_full_and_at_reads() {
    let (session, system) = Reference::session();
    let _entered = session.enter();
    let mut x = DynTensor::zeros([1], DType::F32);
    for _ in 0..1000 {
        x += 1.0;
    }
    // 2001 entries: the first value, then an addition and a free for each step. Segments end after
    // a free.
    assert_eq!(system.segments(), [511, 512, 512]);
    assert_eq!(x.item().unwrap(), 1000.0);
    assert_eq!(system.segments().len(), 4);
    let total = session.stats().unwrap().total();
    assert_eq!((total.instructions, total.segments), (1001, 4));
}

#[test]
fn scopes_stand_on_the_tape_around_what_is_recorded() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::zeros([1], DType::F32);
    session.start_trace();
    {
        let _outer = signal::scope("outer");
        let _unused = signal::scope("unused");
        drop(_unused);
        let y = &x + 1.0;
        {
            let _inner = signal::scope("inner");
            drop(y.exp());
        }
        session.flush();
        drop(y.exp());
    }
    drop(x.log());
    let tape = session.stop_trace();
    let text: Vec<String> = tape
        .entries
        .iter()
        .filter_map(|e| match e {
            Entry::Enter(name) => Some(format!("+{name}")),
            Entry::Exit(name) => Some(format!("-{name}")),
            Entry::Instr(i) => Some(i.op.to_string()),
            Entry::Free(_) | Entry::Input { .. } | Entry::Output { .. } => None,
        })
        .collect();
    let want = "+outer add +inner exp -inner -outer +outer exp -outer log";
    assert_eq!(text.join(" "), want, "scopes close with their segment and open again in the next");
}

/// A trace of a step is a program of its own: it computes what the step did, from what there was
/// before.
#[test]
fn a_trace_is_a_program_whose_inputs_are_what_was_there_before() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let (w, unused) = (numbers(6, &[2, 3]).requires_grad(), numbers(2, &[2]));
    let x = numbers(12, &[4, 3]);
    session.start_trace();
    drop(unused);
    let loss = x.matmul(&w.t()).square().sum(..);
    loss.backward().unwrap();
    let grad = w.grad().unwrap();
    let (kept, read) = (grad.value_id().unwrap(), grad.to_vec::<f32>().unwrap());
    drop(x.to_host().unwrap());
    let so_far = session.tape();
    let tape = session.stop_trace();
    assert_eq!(so_far, tape);
    gt_ir::verify::verify(&tape).unwrap();
    let given = tape.entries.iter().take_while(|entry| matches!(entry, Entry::Input { .. }));
    let given: Vec<ValueId> = given.filter_map(Entry::defines).collect();
    assert_eq!(given, [w.value_id().unwrap(), x.value_id().unwrap()]);

    let again = Reference::new();
    for (value, tensor) in given.into_iter().zip([&w, &x]) {
        again.upload(value, tensor.to_host().unwrap());
    }
    again.submit(tape);
    assert_eq!(again.fetch(kept).unwrap().to_vec::<f32>().unwrap(), read);
}

#[test]
fn absurd_scopes_are_harmless() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let _outer = signal::scope(&"é".repeat(1 << 16));
    (0..3000).for_each(|i| signal::enter(&i.to_string()));
    assert_eq!(numbers(3, &[3]).sum(..).item().unwrap(), 3.0);
    assert_eq!(numbers(3, &[3]).exp().sum(..).log().shape().rank(), 0);
}

#[test]
fn threads_share_a_session() {
    let (session, system) = Reference::session();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let session = session.clone();
            scope.spawn(move || {
                let _entered = session.enter();
                let _scope = signal::scope(&format!("thread {t}"));
                let x = (0..300).fold(DynTensor::zeros([1], DType::I64), |x, _| x + 1);
                assert_eq!(x.item().unwrap(), 300.0);
            });
        }
    });
    session.flush();
    assert_eq!(system.live(), 0);
}

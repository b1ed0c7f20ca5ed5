//! Asynchronous reads of programs: with an executor written by hand, with tokio, within the process
//! and on a server.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use gt::prelude::*;

use crate::process::Cluster;

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: one thread that sleeps until it is woken.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Several reads at once, of values that later work updates, and of an error.
fn reads(session: &Session) {
    let _entered = session.enter();
    let x = DynTensor::arange(0, 1000, 1, DType::F32);
    let mut sums = Vec::new();
    let mut scaled = x.clone();
    for _ in 0..20 {
        scaled = &scaled * 2.0;
        sums.push(scaled.sum(..).item_async());
        drop(scaled.to_vec_async::<f32>());
    }
    block_on(async {
        for (i, sum) in sums.into_iter().enumerate() {
            assert_eq!(sum.await.unwrap(), 499_500.0 * 2.0f64.powi(i as i32 + 1));
        }
        assert_eq!(x.to_vec_async::<f32>().await.unwrap().len(), 1000);
        let line = line!() + 1;
        let outside = x.index_select(0, &DynTensor::from([1000i64]));
        let error = outside.sum(..).item_async().await.unwrap_err();
        assert!(error.to_string().contains(&format!("tests/it/reading.rs:{line}:")), "{error}");
    });
}

/// Tasks of several threads share a session, and some are given up.
fn tasks(session: &Session) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let x = {
        let _entered = session.enter();
        DynTensor::ones([64, 64], DType::F32)
    };
    let read = |i: i32| {
        let x = x.clone();
        async move {
            let sum = (x * i).sum(..);
            tokio::task::yield_now().await;
            sum.item_async().await.unwrap()
        }
    };
    let sums = runtime.block_on(async {
        let tasks: Vec<_> = (0..64).map(|i| tokio::spawn(read(i))).collect();
        let mut sums = Vec::new();
        for (i, task) in tasks.into_iter().enumerate() {
            match i % 3 {
                0 => task.abort(),
                _ => sums.push(task.await.unwrap()),
            }
        }
        sums
    });
    let expected = (0..64).filter(|i| i % 3 != 0).map(|i| f64::from(64 * 64 * i));
    assert!(sums.into_iter().eq(expected));
}

/// A read that is open when its session ends is answered.
fn ends(session: Session) {
    let x = {
        let _entered = session.enter();
        DynTensor::randn([256, 256], DType::F32)
    };
    let products = (0..50).fold(x.clone(), |product, _| product.matmul(&x));
    let reading = products.sum(..).item_async();
    session.close();
    // It was answered before the end, or the end is its answer.
    if let Err(error) = block_on(reading) {
        assert_eq!(error.message(), "the session was closed");
    }
    assert!(block_on(x.item_async()).is_err());
}

#[test]
fn futures_read_within_the_process() {
    let session = gt::embedded(2).unwrap();
    reads(&session);
    tasks(&session);
    ends(session);
}

#[test]
fn futures_read_from_a_server() {
    let cluster = Cluster::start(1);
    let session = Session::connect(&cluster.address).unwrap();
    reads(&session);
    tasks(&session);
    ends(session);
}

//! Reads that do not hold up the thread: futures for asynchronous programs.
//!
//! Guarantees: the question is asked when the method is called, so several reads are under way at
//! once; any executor will do, and it is woken when the value arrives; a future that is dropped has
//! no effect. Values and errors are those of the methods that wait.

use std::fmt;
use std::future::{Future, ready};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use gt_ir::{Element, HostTensor};

use super::DynTensor;
use super::data::item_of;
use crate::error::{Error, Result};
use crate::session::Place;

/// A read under way, whose value `.await` gives: of [`DynTensor::item_async`],
/// [`DynTensor::to_vec_async`] and [`DynTensor::to_host_async`].
///
/// It needs no executor in particular and borrows nothing, so it may be sent to another task or
/// thread. Dropping it does no harm. Recording itself never waits for a result.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// async fn mean_and_largest(x: &DynTensor) -> Result<(f64, f64)> {
///     let (mean, largest) = (x.mean(..).item_async(), x.max(..).item_async());
///     Ok((mean.await?, largest.await?)) // both were asked for before the first arrived
/// }
/// # let _ = mean_and_largest;
/// ```
#[must_use = "the value is what `.await` gives"]
pub struct Reading<T>(Pin<Box<dyn Future<Output = Result<T>> + Send>>);

impl DynTensor {
    /// [`to_host`](DynTensor::to_host) for asynchronous programs.
    #[track_caller]
    pub fn to_host_async(&self) -> Reading<HostTensor> {
        let at = Location::caller();
        self.read_async(Ok(()), at, Ok)
    }

    /// [`to_vec`](DynTensor::to_vec) for asynchronous programs.
    #[track_caller]
    pub fn to_vec_async<T: Element>(&self) -> Reading<Vec<T>> {
        let at = Location::caller();
        let checked = self.may_be_vec(T::DTYPE, at);
        self.read_async(checked, at, move |host| host.to_vec().map_err(|e| Error::from_op(e, at)))
    }

    /// [`item`](DynTensor::item) for asynchronous programs.
    #[track_caller]
    pub fn item_async(&self) -> Reading<f64> {
        let at = Location::caller();
        self.read_async(self.may_be_item(at), at, move |host| item_of(&host, at))
    }

    /// Asks for the value, if it was checked that it may be, and makes something of it.
    fn read_async<T: Send + 'static>(
        &self,
        checked: Result<()>,
        at: &'static Location<'static>,
        make: impl FnOnce(HostTensor) -> Result<T> + Send + 'static,
    ) -> Reading<T> {
        match checked.and_then(|()| self.begin_to_host(Place::Caller(at))) {
            Ok(begun) => Reading(Box::pin(async move { begun.await.and_then(make) })),
            Err(error) => Reading(Box::pin(ready(Err(error)))),
        }
    }
}

impl<T> Future for Reading<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        self.0.as_mut().poll(context)
    }
}

impl<T> fmt::Debug for Reading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").finish_non_exhaustive()
    }
}

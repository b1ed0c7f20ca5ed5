//! Data in and out: vectors become tensors without a copy, reads bring values back and raise what
//! went wrong.

use std::future::Future;
use std::panic::Location;

use gt_ir::{DType, Element, HostTensor, OpError, Type};

use super::capture;
use super::tensor::{Made, NO_TYPE, TapeValue};
use super::{DynTensor, Sizes};
use crate::error::{Error, ErrorKind, Result};
use crate::session::{Place, Session};

impl DynTensor {
    /// A tensor of these elements in row-major order; the vector is not copied.
    #[doc(alias("tensor", "from_numpy"))]
    #[must_use]
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, sizes: impl Into<Sizes>) -> DynTensor {
        let sizes = sizes.into();
        let host = sizes.resolve("from_vec").and_then(|shape| HostTensor::from_vec(data, shape));
        upload(host, Type { dtype: T::DTYPE, shape: sizes.nearly() }, Location::caller())
    }

    /// A tensor of these elements, copied.
    #[must_use]
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T], sizes: impl Into<Sizes>) -> DynTensor {
        DynTensor::from_vec(data.to_vec(), sizes)
    }

    /// A tensor of host data, not copied.
    #[must_use]
    #[track_caller]
    pub fn from_host(data: HostTensor) -> DynTensor {
        DynTensor::from_host_at(data, Location::caller())
    }

    /// [`DynTensor::from_host`], as if written at this place.
    pub(crate) fn from_host_at(data: HostTensor, at: &'static Location<'static>) -> DynTensor {
        let like = *data.ty();
        upload(Ok(data), like, at)
    }

    /// One number as a tensor without axes.
    #[must_use]
    #[track_caller]
    pub fn scalar<T: Element>(value: T) -> DynTensor {
        upload(Ok(HostTensor::scalar(value)), NO_TYPE, Location::caller())
    }

    /// The value, when everything it depends on has run.
    ///
    /// # Errors
    /// The first error of anything this tensor derives from.
    #[track_caller]
    pub fn to_host(&self) -> Result<HostTensor> {
        self.to_host_at(Place::Caller(Location::caller()))
    }

    /// [`DynTensor::to_host`], asked for at this place.
    pub(super) fn to_host_at(&self, place: Place) -> Result<HostTensor> {
        self.may_be_read(place)?;
        // Held until the data is here, so that an update by another thread does not free it.
        let value = self.value();
        let (session, id) = value.place().map_err(Error::clone)?;
        session.fetch(id, &value.ty, place)
    }

    /// Asks for the value, for [`Reading`](super::Reading).
    pub(super) fn begin_to_host(
        &self,
        place: Place,
    ) -> Result<impl Future<Output = Result<HostTensor>> + Send + use<>> {
        self.may_be_read(place)?;
        let value = self.value();
        let (session, id) = value.place().map_err(Error::clone)?;
        let fetching = session.begin_fetch(id, &value.ty, place)?;
        Ok(async move {
            let host = fetching.await;
            drop(value); // held until here, as in `to_host_at`
            host
        })
    }

    /// A function that runs once for many examples or rounds reads nothing.
    fn may_be_read(&self, place: Place) -> Result<()> {
        let Some(name) = capture::name() else { return Ok(()) };
        let message = format!("{name}: the function reads {}", self.ty());
        let error = Error::new(ErrorKind::Operation, message, place);
        Err(error.hint("it runs once for all: read outside, or use `where_`"))
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// As [`DynTensor::to_host`]; also when `T` is not the tensor's dtype.
    #[doc(alias("tolist", "numpy"))]
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let at = Location::caller();
        self.may_be_vec(T::DTYPE, at)?;
        self.to_host()?.to_vec().map_err(|e| Error::from_op(e, at))
    }

    /// Whether the elements are of this dtype.
    pub(super) fn may_be_vec(&self, dtype: DType, at: &'static Location<'static>) -> Result<()> {
        let ty = self.ty();
        if ty.dtype == dtype || self.error().is_some() {
            return Ok(());
        }
        let message = format!("to_vec: the tensor is {ty}, but {dtype} was asked for");
        let error = Error::new(ErrorKind::Data, message, at);
        Err(error.hint(format!("read it as {}, or cast it first", ty.dtype)))
    }

    /// The only element, as `f64`.
    ///
    /// # Errors
    /// As [`DynTensor::to_host`]; also when there is not exactly one element.
    #[track_caller]
    pub fn item(&self) -> Result<f64> {
        let at = Location::caller();
        self.may_be_item(at)?;
        item_of(&self.to_host()?, at)
    }

    /// Whether there is exactly one element.
    pub(super) fn may_be_item(&self, at: &'static Location<'static>) -> Result<()> {
        let ty = self.ty();
        if ty.shape.numel() == 1 || self.error().is_some() {
            return Ok(());
        }
        let message = format!("item: needs exactly one element, but the tensor is {ty}");
        Err(Error::new(ErrorKind::Data, message, at).hint("use `to_vec` to read them all"))
    }
}

/// The element of a tensor of one element.
pub(super) fn item_of(host: &HostTensor, at: &'static Location<'static>) -> Result<f64> {
    let one = host.to_f64().first().copied();
    one.ok_or_else(|| {
        Error::new(ErrorKind::Data, format!("item: got no element of {}", host.ty()), at)
    })
}

fn upload(
    host: Result<HostTensor, OpError>,
    like: Type,
    at: &'static Location<'static>,
) -> DynTensor {
    let host = match host {
        Ok(host) => host,
        Err(error) => {
            let error = OpError {
                message: format!("from_vec: {}", error.message.trim_start_matches("from_vec: ")),
                ..error
            };
            return DynTensor::failed(Error::from_op(error, at), like);
        }
    };
    let ty = *host.ty();
    match Session::current() {
        Ok(session) => {
            let id = session.upload(host, Place::Caller(at));
            let loc = session.loc(Place::Caller(at));
            let made = Made { op: None, loc, gradient: gt_ir::Loc::NONE };
            DynTensor::plain(TapeValue::live(session, id, ty, made))
        }
        Err(error) => DynTensor::failed(error.or_at(at), ty),
    }
}

//! Which CUDA devices this machine has, asked of the driver alone.
//!
//! Guarantees: cheap (no libtorch, no context on any device) and safe to ask on any machine;
//! without a driver or a device the answer is an error that says so. The order is CUDA's, as
//! `CUDA_VISIBLE_DEVICES` leaves it, so the n-th is `cuda:n`.
#![expect(unsafe_code, reason = "calls the CUDA driver")]

use std::{
    ffi::{CStr, c_char, c_int, c_uint},
    fmt,
};

use libloading::Library;

use crate::error::EngineError;

const DRIVER: &str = "libcuda.so.1";
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `_MINOR`.
const CAPABILITY: [c_int; 2] = [75, 76];

/// A CUDA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number: `cuda:N`.
    pub index: usize,
    /// As its maker calls it.
    pub name: String,
    /// Its compute capability, major and minor.
    pub capability: (u32, u32),
    /// Bytes of its memory.
    pub memory: usize,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability;
        let gib = self.memory as f64 / f64::from(1 << 30);
        write!(
            f,
            "cuda:{} {}, compute capability {major}.{minor}, {gib:.1} GiB",
            self.index, self.name
        )
    }
}

/// The devices of this machine, at least one.
///
/// # Errors
/// There is no driver, it refuses to work, or there is no device.
pub fn devices() -> Result<Vec<DeviceInfo>, EngineError> {
    let found = Driver::load().and_then(|driver| driver.devices());
    match found {
        Ok(devices) if devices.is_empty() => Err(none("the driver sees none")),
        Ok(devices) => Ok(devices),
        Err(why) => Err(none(&why)),
    }
}

/// The version of CUDA the driver is for, major and minor.
///
/// # Errors
/// As of [`devices`].
pub fn driver_version() -> Result<(u32, u32), EngineError> {
    let version = Driver::load().and_then(|driver| driver.version());
    version.map(|v| (v / 1000, v % 1000 / 10)).map_err(|why| none(&why))
}

fn none(why: &str) -> EngineError {
    EngineError::Call(format!("no CUDA device: {why}"))
}

type Ask2<T> = unsafe extern "C" fn(*mut T, c_int) -> c_int;

/// The driver's functions by their names in `cuda.h`.
struct Driver {
    init: unsafe extern "C" fn(c_uint) -> c_int,
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    count: unsafe extern "C" fn(*mut c_int) -> c_int,
    get: Ask2<c_int>,
    name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    memory: Ask2<usize>,
    attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int,
    error: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
}

impl Driver {
    fn load() -> Result<Driver, String> {
        // SAFETY: the driver may be loaded at any time and on any thread.
        let library = unsafe { Library::new(DRIVER) };
        let library = library.map_err(|_| format!("there is no driver ({DRIVER})"))?;
        let driver = Driver {
            init: symbol(&library, "cuInit")?,
            version: symbol(&library, "cuDriverGetVersion")?,
            count: symbol(&library, "cuDeviceGetCount")?,
            get: symbol(&library, "cuDeviceGet")?,
            name: symbol(&library, "cuDeviceGetName")?,
            memory: symbol(&library, "cuDeviceTotalMem_v2")?,
            attribute: symbol(&library, "cuDeviceGetAttribute")?,
            error: symbol(&library, "cuGetErrorString")?,
        };
        // It stays for the engines to come.
        std::mem::forget(library);
        // SAFETY: the only flag there is.
        let status = unsafe { (driver.init)(0) };
        driver.checked(status)?;
        Ok(driver)
    }

    fn checked(&self, status: c_int) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: writes one pointer.
        let found = unsafe { (self.error)(status, &raw mut text) };
        if found != 0 || text.is_null() {
            return Err(format!("the driver says error {status}"));
        }
        // SAFETY: the driver's messages are constants ended by a zero byte.
        let text = unsafe { CStr::from_ptr(text) };
        Err(format!("the driver says: {}", text.to_string_lossy()))
    }

    fn version(&self) -> Result<u32, String> {
        let mut version = 0;
        // SAFETY: writes one number.
        let status = unsafe { (self.version)(&raw mut version) };
        self.checked(status)?;
        Ok(u32::try_from(version).unwrap_or(0))
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, String> {
        let mut n = 0;
        // SAFETY: writes one number.
        let status = unsafe { (self.count)(&raw mut n) };
        self.checked(status)?;
        (0..n).map(|i| self.device(i)).collect()
    }

    fn device(&self, i: c_int) -> Result<DeviceInfo, String> {
        let handle = self.ask(self.get, i)?;
        let [major, minor] = CAPABILITY.map(|which| self.attribute(which, handle));
        Ok(DeviceInfo {
            index: usize::try_from(i).unwrap_or(0),
            name: self.name(handle)?,
            capability: (major?, minor?),
            memory: self.ask(self.memory, handle)?,
        })
    }

    fn ask<T: Default>(&self, function: Ask2<T>, of: c_int) -> Result<T, String> {
        let mut answer = T::default();
        // SAFETY: every function of this type writes one `T`.
        let status = unsafe { function(&raw mut answer, of) };
        self.checked(status)?;
        Ok(answer)
    }

    fn attribute(&self, which: c_int, handle: c_int) -> Result<u32, String> {
        let mut answer = 0;
        // SAFETY: writes one number.
        let status = unsafe { (self.attribute)(&raw mut answer, which, handle) };
        self.checked(status)?;
        Ok(u32::try_from(answer).unwrap_or(0))
    }

    fn name(&self, handle: c_int) -> Result<String, String> {
        let mut text = [0u8; 256];
        // SAFETY: writes at most so many bytes.
        let status = unsafe { (self.name)(text.as_mut_ptr().cast(), 256, handle) };
        self.checked(status)?;
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T, String> {
    // SAFETY: the types of `Driver` are those of `cuda.h`.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|_| format!("the driver has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_devices_says_so() {
        match devices() {
            Ok(devices) => assert!(devices.iter().all(|d| d.memory > 0 && d.capability.0 > 0)),
            Err(error) => {
                assert!(error.to_string().starts_with("no CUDA device: "), "{error}");
                assert!(driver_version().is_ok() || !error.to_string().contains("sees none"));
            }
        }
    }
}

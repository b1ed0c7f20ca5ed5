//! Lanes: bytes from one process to another by libtorch's c10d, with Gloo.
//!
//! Guarantees: what arrives under a tag is what was sent under it, of the length that both ends
//! named. Each wait ends within its limit, and when the lane is given up. Memory that a lane reads
//! or writes belongs to a [`Sending`] or a [`Receiving`], and outlives every access to it. A lane
//! neither encrypts nor knows who is at the other end: that is the caller's to find out.
#![expect(unsafe_code, reason = "calls the C++ shim over c10d")]

#[cfg(test)]
mod tests;

use std::{
    ffi::{CStr, CString, c_char, c_void},
    ptr::{self, NonNull},
    time::Duration,
};

use bytes::Bytes;

/// Why a lane failed, in the words of libtorch. It is of no more use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LaneError(String);

/// Which of the two ends of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The one.
    First,
    /// The other.
    Second,
}

/// Where the two ends of a lane leave their addresses for each other, as keys and values.
pub trait Store {
    /// Keeps a value of this end. Says whether it does.
    fn set(&mut self, key: &str, value: &[u8]) -> bool;
    /// A value of either end. Waits for one of the other end, for a limited time.
    fn get(&mut self, key: &str) -> Option<&[u8]>;
}

enum RawLane {}
enum RawWork {}

/// `gt_c10d_store`.
#[repr(C)]
struct RawStore {
    context: *mut c_void,
    set: unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const u8, usize) -> i32,
    get: unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut u8, usize) -> i64,
}

// SAFETY: the functions of `csrc/gt_c10d.h`, with its types.
unsafe extern "C" {
    fn gt_c10d_open(
        host: *const c_char,
        rank: i32,
        limit_ms: i64,
        store: *const RawStore,
        out: *mut *mut RawLane,
    ) -> i32;
    fn gt_c10d_send(
        lane: *mut RawLane,
        bytes: *const u8,
        len: usize,
        tag: i32,
        out: *mut *mut RawWork,
    ) -> i32;
    fn gt_c10d_receive(
        lane: *mut RawLane,
        bytes: *mut u8,
        len: usize,
        tag: i32,
        out: *mut *mut RawWork,
    ) -> i32;
    fn gt_c10d_wait(lane: *mut RawLane, work: *mut RawWork, limit_ms: i64) -> i32;
    fn gt_c10d_give_up(work: *mut RawWork);
    fn gt_c10d_abort(lane: *mut RawLane);
    fn gt_c10d_close(lane: *mut RawLane);
    fn gt_c10d_message() -> *const c_char;
}

/// One end of a lane. One thread at a time uses it, and a [`Work`] borrows it, so it is closed
/// after all works. Others may [`abort`](Lane::abort) it.
pub struct Lane(NonNull<RawLane>);

// SAFETY: the shim's objects belong to no thread.
unsafe impl Send for Lane {}
// SAFETY: c10d guards its groups by locks of their own, and the shim guards the rest.
unsafe impl Sync for Lane {}

impl Lane {
    /// Opens an end at an address or a name of this machine. Waits for the other end.
    ///
    /// # Errors
    /// There is no such address here, or the other end does not come within the limit.
    pub fn open(
        host: &str,
        end: End,
        limit: Duration,
        mut store: &mut dyn Store,
    ) -> Result<Lane, LaneError> {
        let host = CString::new(host).map_err(|why| LaneError(why.to_string()))?;
        let context = ptr::from_mut(&mut store).cast();
        let store = RawStore { context, set, get };
        let (rank, mut out) = (i32::from(end == End::Second), ptr::null_mut());
        // SAFETY: all pointers are of locals. The store is used during the call only, by this
        // thread, and its functions do not unwind.
        check(unsafe { gt_c10d_open(host.as_ptr(), rank, millis(limit), &store, &mut out) })?;
        NonNull::new(out).map(Lane).ok_or_else(|| LaneError("there is no lane".into()))
    }

    /// Begins to send bytes. The other end receives as many under the same tag.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn send(&self, bytes: Bytes, tag: u32) -> Result<Sending<'_>, LaneError> {
        let mut out = ptr::null_mut();
        // SAFETY: `Sending` keeps the bytes, which do not move, until the work is given up.
        let status = unsafe {
            gt_c10d_send(self.0.as_ptr(), bytes.as_ptr(), bytes.len(), tag_of(tag), &mut out)
        };
        check(status)?;
        Ok(Sending { work: self.work(out)?, _bytes: bytes })
    }

    /// Begins to receive bytes that the other end sends under a tag.
    ///
    /// # Errors
    /// There is no memory for them, or the other end is gone.
    pub fn receive(&self, len: usize, tag: u32) -> Result<Receiving<'_>, LaneError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|why| LaneError(why.to_string()))?;
        bytes.resize(len, 0);
        let mut out = ptr::null_mut();
        // SAFETY: `Receiving` keeps the bytes where they are, and nobody reads them, until the work
        // is given up.
        let status = unsafe {
            gt_c10d_receive(self.0.as_ptr(), bytes.as_mut_ptr(), len, tag_of(tag), &mut out)
        };
        check(status)?;
        Ok(Receiving { work: self.work(out)?, bytes })
    }

    /// Ends the current wait of another thread, and all later ones, with an error.
    pub fn abort(&self) {
        // SAFETY: the lane is there, and this function may be called on any thread.
        unsafe { gt_c10d_abort(self.0.as_ptr()) }
    }

    fn work(&self, raw: *mut RawWork) -> Result<Work<'_>, LaneError> {
        let raw = NonNull::new(raw).ok_or_else(|| LaneError("there is no work".into()))?;
        Ok(Work { raw, lane: self })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // SAFETY: it is there, and all works, which borrow it, have been given up.
        unsafe { gt_c10d_close(self.0.as_ptr()) }
    }
}

/// Something a lane does.
struct Work<'a> {
    raw: NonNull<RawWork>,
    lane: &'a Lane,
}

impl Work<'_> {
    fn wait(&self, limit: Duration) -> Result<(), LaneError> {
        // SAFETY: both are there.
        check(unsafe { gt_c10d_wait(self.lane.0.as_ptr(), self.raw.as_ptr(), millis(limit)) })
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        // SAFETY: it is there and is not used any more.
        unsafe { gt_c10d_give_up(self.raw.as_ptr()) }
    }
}

/// Bytes on their way to the other end. They are dropped after the work that reads them.
pub struct Sending<'a> {
    work: Work<'a>,
    _bytes: Bytes,
}

impl Sending<'_> {
    /// Waits until they have left.
    ///
    /// # Errors
    /// They did not leave within the limit, the other end is gone, or the lane was given up.
    pub fn wait(self, limit: Duration) -> Result<(), LaneError> {
        self.work.wait(limit)
    }
}

/// Bytes on their way to this end. They are dropped after the work that writes them.
pub struct Receiving<'a> {
    work: Work<'a>,
    bytes: Vec<u8>,
}

impl Receiving<'_> {
    /// Waits for them.
    ///
    /// # Errors
    /// They did not come within the limit, the other end is gone, or the lane was given up.
    pub fn wait(self, limit: Duration) -> Result<Vec<u8>, LaneError> {
        let Receiving { work, bytes } = self;
        let done = work.wait(limit);
        // Before the bytes, also if it failed.
        drop(work);
        done.map(|()| bytes)
    }
}

/// Gloo's tags are not negative.
fn tag_of(tag: u32) -> i32 {
    (tag & i32::MAX as u32).cast_signed()
}

/// At least 1: with 0 there would be no limit.
fn millis(limit: Duration) -> i64 {
    i64::try_from(limit.as_millis()).unwrap_or(i64::MAX).max(1)
}

fn check(status: i32) -> Result<(), LaneError> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: it takes nothing.
    let text = unsafe { gt_c10d_message() };
    // SAFETY: the shim gives a string of this thread's, ended by a zero byte and unchanged until
    // the next call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    // Gloo says first where in its sources it is: `[FILE.cc:LINE] `.
    let place = text.strip_prefix('[').and_then(|text| text.split_once("] "));
    let text = place.map_or(&*text, |(_, text)| text);
    Err(LaneError(text.lines().next().unwrap_or_default().trim().to_owned()))
}

/// `set` of [`RawStore`].
unsafe extern "C" fn set(
    context: *mut c_void,
    key: *const c_char,
    key_len: usize,
    value: *const u8,
    len: usize,
) -> i32 {
    // SAFETY: `Lane::open` passed this context, which nobody else uses during the call.
    let store = unsafe { &mut *context.cast::<&mut dyn Store>() };
    // SAFETY: the shim passes the bytes of a string.
    let key = unsafe { slice(key.cast(), key_len) };
    // SAFETY: the shim passes the bytes of a vector.
    let value = unsafe { slice(value, len) };
    let kept = std::str::from_utf8(key).is_ok_and(|key| store.set(key, value));
    i32::from(!kept)
}

/// `get` of [`RawStore`].
unsafe extern "C" fn get(
    context: *mut c_void,
    key: *const c_char,
    key_len: usize,
    out: *mut u8,
    room: usize,
) -> i64 {
    // SAFETY: `Lane::open` passed this context, which nobody else uses during the call.
    let store = unsafe { &mut *context.cast::<&mut dyn Store>() };
    // SAFETY: the shim passes the bytes of a string.
    let key = unsafe { slice(key.cast(), key_len) };
    let found = std::str::from_utf8(key).ok().and_then(|key| store.get(key));
    let Some(value) = found.filter(|value| value.len() <= room) else { return -1 };
    // SAFETY: there is room for so many bytes, in memory of the shim's own.
    unsafe { ptr::copy_nonoverlapping(value.as_ptr(), out, value.len()) };
    i64::try_from(value.len()).unwrap_or(-1)
}

/// A slice of C++, where an empty one may be nowhere.
///
/// # Safety
/// So many bytes are there for as long as the result is used.
unsafe fn slice<'a>(at: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(at, len) }
}

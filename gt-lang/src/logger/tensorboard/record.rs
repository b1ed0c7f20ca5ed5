//! The frames of a TFRecord file: length, its checksum, data, its checksum.

use std::io::Write;

/// Writes a record.
pub(super) fn write(file: &mut impl Write, data: &[u8]) -> std::io::Result<()> {
    let length = (data.len() as u64).to_le_bytes();
    file.write_all(&length)?;
    file.write_all(&checksum(&length))?;
    file.write_all(data)?;
    file.write_all(&checksum(data))
}

/// The masked CRC-32C. The mask keeps a checksum of data that holds checksums from being trivial.
fn checksum(data: &[u8]) -> [u8; 4] {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

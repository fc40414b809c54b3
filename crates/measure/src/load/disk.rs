//! Disk as the source or sink of a stream (`longhaul test --file`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kernel::{DataFile, KernelError};
use wire::BLOCK_HEADER_BYTES as HEADER_LEN;

/// Bytes that a stream writes before it waits for the disk: enough to keep the disk busy, too few to measure the page
/// cache.
const UNSETTLED_MAX: u64 = 8 << 20;

/// The file of a test, shared by its streams.
#[derive(Debug, Clone)]
pub struct Disk {
    file: Arc<DataFile>,
    /// Offset of the next write: the streams share it, so that the disk receives one sequence.
    end: Arc<AtomicU64>,
}

impl Disk {
    /// Uses an opened file: a source for a sender, a sink for a receiver.
    pub fn new(file: DataFile) -> Self {
        Self { file: Arc::new(file), end: Arc::new(AtomicU64::new(0)) }
    }

    /// Bytes on the wire when the whole file is sent once in blocks of `block` bytes, their headers included.
    pub fn bytes_on_wire(&self, block: u64) -> u64 {
        let body = block.saturating_sub(HEADER_LEN as u64).max(1);
        self.file.size().saturating_add(self.file.size().div_ceil(body).saturating_mul(HEADER_LEN as u64))
    }
}

/// Reads one stream's part of the file repeatedly.
#[derive(Debug)]
pub(super) struct DiskReader {
    file: Arc<DataFile>,
    part: std::ops::Range<u64>,
    position: u64,
    block: Vec<u8>,
}

impl DiskReader {
    /// Creates the reader of stream `index` of `streams`.
    pub(super) fn new(disk: &Disk, streams: u32, index: u32) -> Self {
        let (len, n, i) = (disk.file.size(), u64::from(streams.max(1)), u64::from(index));
        let start = len / n * i;
        let end = if i + 1 >= n { len } else { start + len / n };
        Self { file: Arc::clone(&disk.file), part: start..end.max(start + 1), position: start, block: Vec::new() }
    }

    /// Reads the bytes behind the header of a block of `len` bytes.
    pub(super) fn fill(&mut self, len: usize) -> Result<(), KernelError> {
        self.block.resize(len.saturating_sub(HEADER_LEN), 0);
        let mut rest = self.block.as_mut_slice();
        while !rest.is_empty() {
            let left = usize::try_from(self.part.end - self.position).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at_mut(left.min(rest.len()));
            self.file.read_at(now, self.position)?;
            self.position += now.len() as u64;
            if self.position >= self.part.end {
                self.position = self.part.start;
            }
            rest = later;
        }
        Ok(())
    }

    /// Bytes behind the header of the block.
    pub(super) fn body(&self) -> &[u8] {
        &self.block
    }
}

/// Writes the received bytes of one stream.
#[derive(Debug)]
pub(super) struct DiskWriter {
    disk: Disk,
    /// Offset of the first byte that may not be on the disk yet, and the number of such bytes of this stream.
    unsettled: Option<(u64, u64)>,
}

impl DiskWriter {
    pub(super) fn new(disk: Disk) -> Self {
        Self { disk, unsettled: None }
    }

    /// Writes data, and waits for the disk once 8 MiB are not on it.
    pub(super) fn write(&mut self, data: &[u8]) -> Result<(), KernelError> {
        let len = data.len() as u64;
        let offset = self.disk.end.fetch_add(len, Ordering::Relaxed);
        self.disk.file.write_at(data, offset)?;
        let (start, count) = self.unsettled.unwrap_or((offset, 0));
        self.unsettled = Some((start, count + len));
        if count + len >= UNSETTLED_MAX { self.settle() } else { Ok(()) }
    }

    /// Waits until all data is on the disk.
    pub(super) fn settle(&mut self) -> Result<(), KernelError> {
        let Some((start, _)) = self.unsettled.take() else { return Ok(()) };
        let end = self.disk.end.load(Ordering::Relaxed);
        self.disk.file.settle(start, end.saturating_sub(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_reads_its_part_of_the_file_repeatedly() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let content: Vec<u8> = (0..100).collect();
        std::fs::write(file.path(), &content).unwrap();
        let disk = Disk::new(DataFile::source(file.path()).unwrap());
        let mut seen = Vec::new();
        for index in 0..3 {
            let mut reader = DiskReader::new(&disk, 3, index);
            reader.fill(HEADER_LEN + 20).unwrap();
            seen.extend_from_slice(reader.body());
            reader.fill(HEADER_LEN + 20).unwrap();
            seen.extend_from_slice(&reader.body()[..if index == 2 { 14 } else { 13 }]);
            let part = if index == 2 { 34 } else { 33 };
            assert_eq!(reader.body()[part - 20], content[index as usize * 33], "from the start of its part");
        }
        assert_eq!(seen, content);
        // 100 bytes in bodies of 48: three headers.
        assert_eq!(disk.bytes_on_wire(64), 148);
    }

    #[test]
    fn a_truncated_file_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1; 100]).unwrap();
        let mut reader = DiskReader::new(&Disk::new(DataFile::source(file.path()).unwrap()), 1, 0);
        std::fs::write(file.path(), [1; 10]).unwrap();
        assert!(reader.fill(HEADER_LEN + 50).is_err());
    }
}

//! tmp
#[derive(Debug)]
pub(crate) struct Ewma(u64);
impl Ewma {
    pub(crate) fn new() -> Self { Self(50_000) }
    pub(crate) fn average(&self) -> u64 { self.0 }
    pub(crate) fn update(&mut self, elapsed: u64, n: u32) { let s = (elapsed / u64::from(n)).min(self.0.saturating_mul(10)).max(1); let w = 1.0 - 0.9f64.powi(n.min(1000) as i32); self.0 = ((self.0 as f64) * (1.0 - w) + s as f64 * w) as u64; self.0 = self.0.max(1); }
}
pub(crate) fn injector_interval(average: u64) -> u32 { (1_000_000 / average.max(1)).clamp(8, 255) as u32 }

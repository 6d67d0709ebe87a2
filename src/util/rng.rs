//! tmp
#[derive(Debug)]
pub(crate) struct Rng { one: u32, two: u32 }
impl Rng {
    pub(crate) fn new(seed: u64, index: u64) -> Self { let s = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15)); Self { one: (s >> 32) as u32, two: (s as u32).max(1) } }
    pub(crate) fn next_u32(&mut self) -> u32 { let mut s1 = self.one; let s0 = self.two; s1 ^= s1 << 17; s1 = s1 ^ s0 ^ s1 >> 7 ^ s0 >> 16; self.one = s0; self.two = s1; s0.wrapping_add(s1) }
    pub(crate) fn below(&mut self, n: u32) -> u32 { ((u64::from(self.next_u32()) * u64::from(n)) >> 32) as u32 }
}

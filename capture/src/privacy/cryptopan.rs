//! Crypto-PAn: prefix-preserving pseudonyms of addresses (Fan, Xu, Ammar and Moon 2002; AES-128).
//!
//! Bit n of a pseudonym is bit n of the address, flipped by the first bit of AES over the n bits before it, padded to a
//! block. Two addresses that share n bits therefore have pseudonyms that share exactly n bits.

use aes::cipher::{Array, BlockCipherEncrypt as _, KeyInit as _};
use aes::{Aes128, Block};

/// Octets of a key: one half for the cipher, the other for the padding.
pub const KEY_OCTETS: usize = 32;

/// A key, ready for use.
pub struct CryptoPan {
    cipher: Aes128,
    pad: u128,
}

impl CryptoPan {
    /// Prepares a key.
    pub fn new(key: &[u8; KEY_OCTETS]) -> CryptoPan {
        let (cipher, pad) = key.split_at(KEY_OCTETS / 2);
        let cipher = Aes128::new(&Array::try_from(cipher).unwrap_or_default());
        let mut block = Block::try_from(pad).unwrap_or_default();
        cipher.encrypt_block(&mut block);
        CryptoPan { cipher, pad: u128::from_be_bytes(block.into()) }
    }

    /// The pseudonym of an IPv4 address.
    pub fn v4(&self, address: u32) -> u32 {
        address ^ (self.flips::<32>(u128::from(address) << 96) >> 96) as u32
    }

    /// The pseudonym of an IPv6 address.
    pub fn v6(&self, address: u128) -> u128 {
        address ^ self.flips::<128>(address)
    }

    /// The bits that change, from the most significant on, among the first `BITS`. No block depends on another, so that
    /// the processor works on several at once.
    fn flips<const BITS: usize>(&self, address: u128) -> u128 {
        let mut blocks = [Block::default(); BITS];
        let mut prefix = 0_u128;
        for block in &mut blocks {
            *block = (address & prefix | self.pad & !prefix).to_be_bytes().into();
            prefix = prefix >> 1 | 1 << 127;
        }
        self.cipher.encrypt_blocks(&mut blocks);
        blocks.iter().rev().fold(0, |flips, block| flips >> 1 | u128::from(block[0] >> 7) << 127)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// The key of the sample in the authors' package (Crypto-PAn 1.0).
    const SAMPLE: [u8; KEY_OCTETS] = [
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131, 121, 121, 101, 39,
        98, 87, 76, 45, 42, 132, 34, 2,
    ];

    #[test]
    fn the_sample_of_the_authors_comes_out() {
        let pan = CryptoPan::new(&SAMPLE);
        for (address, expected) in [
            ("128.11.68.132", "135.242.180.132"),
            ("129.118.74.4", "134.136.186.123"),
            ("130.132.252.244", "133.68.164.234"),
            ("141.223.7.43", "141.167.8.160"),
            ("141.233.145.108", "141.129.237.235"),
            ("152.163.225.39", "151.140.114.167"),
            ("156.29.3.236", "147.225.12.42"),
            ("165.247.96.84", "162.9.99.234"),
            ("166.107.77.190", "160.132.178.185"),
            ("192.102.249.13", "252.138.62.131"),
        ] {
            let address: Ipv4Addr = address.parse().unwrap();
            assert_eq!(Ipv4Addr::from(pan.v4(address.into())).to_string(), expected);
        }
    }

    /// The authors' sample has no IPv6: this vector is that of yacryptopan 1.0.2, which extends them.
    #[test]
    fn the_vector_of_ipv6_comes_out() {
        let pan = CryptoPan::new(&SAMPLE);
        let address: Ipv6Addr = "2001:db8::1".parse().unwrap();
        let pseudonym = Ipv6Addr::from(pan.v6(address.into()));
        assert_eq!(pseudonym.to_string(), "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e");
    }

    proptest! {
        #[test]
        fn pseudonyms_share_as_many_bits_as_addresses(key: [u8; KEY_OCTETS], one: u128, bit in 0..128_u32, rest: u128) {
            // Another address that shares exactly `bit` bits.
            let differing = 1_u128 << (127 - bit);
            let other = one ^ differing ^ rest & (differing - 1);
            let pan = CryptoPan::new(&key);
            prop_assert_eq!((pan.v6(one) ^ pan.v6(other)).leading_zeros(), bit);
            let [one, other] = [one, other].map(|address| (address >> 96) as u32);
            let shared = |one: u32, other: u32| (one ^ other).leading_zeros();
            prop_assert_eq!(shared(pan.v4(one), pan.v4(other)), shared(one, other));
        }
    }
}

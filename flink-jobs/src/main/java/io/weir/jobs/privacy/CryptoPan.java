package io.weir.jobs.privacy;

import java.security.GeneralSecurityException;
import javax.crypto.Cipher;
import javax.crypto.spec.SecretKeySpec;

/**
 * Crypto-PAn: prefix-preserving pseudonyms of addresses (Fan, Xu, Ammar and Moon 2002; AES-128), as
 * {@code capture/src/privacy/cryptopan.rs} makes them. For one thread.
 */
public final class CryptoPan {
  /** Octets of a key: one half for the cipher, the other for the padding. */
  public static final int KEY_OCTETS = 32;

  private static final int BLOCK = 16;

  private final Cipher cipher;
  private final byte[] pad;
  private final byte[] blocks = new byte[8 * BLOCK * BLOCK];
  private final byte[] encrypted = new byte[8 * BLOCK * BLOCK];

  /** Prepares a key of {@link #KEY_OCTETS}. */
  public CryptoPan(byte[] key) {
    try {
      // Each block is a message of its own: what ECB is for.
      cipher = Cipher.getInstance("AES/ECB/NoPadding");
      cipher.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(key, 0, BLOCK, "AES"));
      pad = cipher.doFinal(key, BLOCK, BLOCK);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java has AES", e);
    }
  }

  /** The pseudonym of an address of 4 or 16 octets. */
  public byte[] pseudonym(byte[] address) {
    int bits = 8 * address.length;
    for (int n = 0; n < bits; n++) {
      // The first n bits are the address's, the others the padding's.
      int block = n * BLOCK;
      int whole = n / 8;
      System.arraycopy(address, 0, blocks, block, whole);
      System.arraycopy(pad, whole, blocks, block + whole, BLOCK - whole);
      int mask = 0xff00 >> (n % 8);
      blocks[block + whole] = (byte) ((address[whole] & mask) | (pad[whole] & ~mask));
    }
    try {
      cipher.doFinal(blocks, 0, bits * BLOCK, encrypted);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("whole blocks need no padding", e);
    }
    byte[] pseudonym = address.clone();
    for (int n = 0; n < bits; n++) {
      pseudonym[n / 8] ^= (byte) ((encrypted[n * BLOCK] & 0x80) >> (n % 8));
    }
    return pseudonym;
  }
}

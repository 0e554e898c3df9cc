package io.weir.jobs.privacy;

import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Set;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Which key makes the pseudonyms. Holds the name of the key's file and never the key: that is part
 * of no job graph and no state.
 *
 * @param keyFile of the master key; empty: addresses stay as they are
 * @param periodMs how long one key is used; 0: for ever, and then it is the master key itself
 * @param names whether records keep names and MAC addresses
 */
public record Privacy(String keyFile, long periodMs, boolean names) implements Serializable {
  /** Addresses stay as they are. */
  public static final Privacy OFF = new Privacy("", 0, true);

  private static final String INFO = "weir cryptopan period ";
  private static final String HMAC = "HmacSHA256";
  private static final Set<PosixFilePermission> OTHERS =
      Set.of(PosixFilePermission.GROUP_READ, PosixFilePermission.OTHERS_READ);

  /** Whether addresses are replaced. */
  public boolean isOn() {
    return !keyFile.isEmpty();
  }

  /** The period's number of an interval that starts then. */
  long period(long startMs) {
    return periodMs == 0 ? 0 : startMs / periodMs;
  }

  /**
   * Reads the master key: a line of 32 characters, or of 0x and 64 hexadecimal digits.
   *
   * @throws IOException if it cannot be read, others than its owner can read it, or it is no key;
   *     no message quotes it
   */
  public byte[] master() throws IOException {
    Path path = Path.of(keyFile);
    for (PosixFilePermission permission : Files.getPosixFilePermissions(path)) {
      if (OTHERS.contains(permission)) {
        throw new IOException(keyFile + ": only its owner may read it: chmod 600");
      }
    }
    String text = Files.readString(path, StandardCharsets.ISO_8859_1).stripTrailing();
    if (text.length() == CryptoPan.KEY_OCTETS) {
      return text.getBytes(StandardCharsets.ISO_8859_1);
    }
    if (text.matches("0x[0-9a-fA-F]{64}")) {
      return HexFormat.of().parseHex(text, 2, text.length());
    }
    throw new IOException(
        keyFile + " holds no key: 32 characters, or 0x and 64 hexadecimal digits");
  }

  /** The key of a period: HKDF-SHA-256 (RFC 5869) of the master key and the period's number. */
  byte[] key(byte[] master, long period) {
    if (periodMs == 0) {
      return master;
    }
    byte[] info = INFO.getBytes(StandardCharsets.US_ASCII);
    // One block of HKDF is as long as a key.
    byte[] block =
        ByteBuffer.allocate(info.length + 9).put(info).putLong(period).put((byte) 1).array();
    return hmac(hmac(new byte[CryptoPan.KEY_OCTETS], master), block);
  }

  private static byte[] hmac(byte[] key, byte[] message) {
    try {
      Mac mac = Mac.getInstance(HMAC);
      mac.init(new SecretKeySpec(key, HMAC));
      return Arrays.copyOf(mac.doFinal(message), CryptoPan.KEY_OCTETS);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java has HMAC-SHA-256", e);
    }
  }
}

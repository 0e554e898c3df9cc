package io.weir.jobs.enrich;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigInteger;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Writes small files in MaxMind's database format, version 2.0: a binary tree over the bits of
 * addresses, then the records to which its leaves point, then the file's metadata. IPv4 is under
 * ::/96, as in the published files.
 */
public final class AddressDatabase {
  private static final int EMPTY = -1;
  private static final int LEAF = -2; // and below: -2 - offset of the record

  /** Types of values, as the format numbers them. */
  private enum Type {
    STRING(2),
    UINT16(5),
    UINT32(6),
    MAP(7),
    UINT64(9),
    ARRAY(11);

    private final int number;

    Type(int number) {
      this.number = number;
    }
  }

  private final List<int[]> nodes = new ArrayList<>();
  private final ByteArrayOutputStream data = new ByteArrayOutputStream();
  private final Map<Object, Integer> offsets = new LinkedHashMap<>();

  public AddressDatabase() {
    nodes.add(new int[] {EMPTY, EMPTY});
  }

  /**
   * Adds a network; a later one must not contain an earlier one. Values: String, Map, List; Integer
   * for a uint16, Long for a uint32, BigInteger for a uint64.
   */
  public AddressDatabase add(String network, Map<String, ?> record) throws IOException {
    int slash = network.indexOf('/');
    byte[] address = InetAddress.getByName(network.substring(0, slash)).getAddress();
    int length = Integer.parseInt(network.substring(slash + 1));
    if (address.length == 4) {
      byte[] wide = new byte[16];
      System.arraycopy(address, 0, wide, 12, 4);
      address = wide;
      length += 96;
    }
    Integer offset = offsets.get(record);
    if (offset == null) {
      offset = data.size();
      offsets.put(record, offset);
      write(data, record);
    }
    int node = 0;
    for (int i = 0; i < length; i++) {
      int bit = (address[i / 8] >> (7 - i % 8)) & 1;
      int next = nodes.get(node)[bit];
      if (i == length - 1) {
        nodes.get(node)[bit] = LEAF - offset;
      } else if (next < 0) {
        // What was here holds for both halves of it.
        nodes.add(new int[] {next, next});
        nodes.get(node)[bit] = nodes.size() - 1;
        node = nodes.size() - 1;
      } else {
        node = next;
      }
    }
    return this;
  }

  /** The file, all of it. */
  public byte[] bytes(long builtAt) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    for (int[] node : nodes) {
      for (int child : node) {
        int value =
            child == EMPTY ? nodes.size() : child < 0 ? nodes.size() + 16 + LEAF - child : child;
        for (int shift = 24; shift >= 0; shift -= 8) {
          out.write(value >>> shift);
        }
      }
    }
    out.write(new byte[16]);
    data.writeTo(out);
    out.write(new byte[] {(byte) 0xab, (byte) 0xcd, (byte) 0xef});
    out.write("MaxMind.com".getBytes(StandardCharsets.US_ASCII));
    Map<String, Object> about = new LinkedHashMap<>();
    about.put("binary_format_major_version", 2);
    about.put("binary_format_minor_version", 0);
    about.put("build_epoch", BigInteger.valueOf(builtAt));
    about.put("database_type", "Test");
    about.put("description", Map.of());
    about.put("ip_version", 6);
    about.put("languages", List.of());
    about.put("node_count", (long) nodes.size());
    about.put("record_size", 32);
    write(out, about);
    return out.toByteArray();
  }

  /** Writes the file properly: first beside its place, then moved into it. */
  public void write(Path path, long builtAt) throws IOException {
    Path beside = path.resolveSibling(path.getFileName() + ".new");
    Files.write(beside, bytes(builtAt));
    Files.move(beside, path, StandardCopyOption.REPLACE_EXISTING);
  }

  private static void write(ByteArrayOutputStream out, Object value) throws IOException {
    if (value instanceof String text) {
      byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
      control(out, Type.STRING, bytes.length);
      out.write(bytes);
    } else if (value instanceof Number number) {
      byte[] bytes = ByteBuffer.allocate(8).putLong(number.longValue()).array();
      int from = 0;
      while (from < 8 && bytes[from] == 0) {
        from++;
      }
      control(
          out,
          number instanceof Integer
              ? Type.UINT16
              : number instanceof Long ? Type.UINT32 : Type.UINT64,
          8 - from);
      out.write(bytes, from, 8 - from);
    } else if (value instanceof Map<?, ?> map) {
      control(out, Type.MAP, map.size());
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        write(out, entry.getKey());
        write(out, entry.getValue());
      }
    } else if (value instanceof List<?> list) {
      control(out, Type.ARRAY, list.size());
      for (Object one : list) {
        write(out, one);
      }
    } else {
      throw new IOException("not written: " + value);
    }
  }

  /** Type and size; sizes of 29 to 284 take one octet more. */
  private static void control(ByteArrayOutputStream out, Type type, int size) {
    out.write((type.number < 8 ? type.number << 5 : 0) | Math.min(size, 29));
    if (type.number >= 8) {
      out.write(type.number - 7);
    }
    if (size >= 29) {
      out.write(size - 29);
    }
  }
}

package io.weir.jobs.sink;

import java.math.BigInteger;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Reads the part of ClickHouse's Native format that the jobs write: each row as a map from column
 * to text.
 */
public final class NativeReader {
  private final ByteBuffer in;

  private NativeReader(byte[] bytes, int length) {
    in = ByteBuffer.wrap(bytes, 0, length).order(ByteOrder.LITTLE_ENDIAN);
  }

  public static List<Map<String, String>> rows(byte[] bytes, int length) {
    NativeReader reader = new NativeReader(bytes, length);
    List<Map<String, String>> rows = new ArrayList<>();
    while (reader.in.hasRemaining()) {
      reader.block(rows);
    }
    return rows;
  }

  private void block(List<Map<String, String>> rows) {
    int columns = varint();
    int count = varint();
    List<Map<String, String>> block = new ArrayList<>();
    for (int row = 0; row < count; row++) {
      block.add(new TreeMap<>());
    }
    for (int i = 0; i < columns; i++) {
      String name = string();
      String type = string();
      List<String> values = column(type, count);
      for (int row = 0; row < count; row++) {
        block.get(row).put(name, values.get(row));
      }
    }
    rows.addAll(block);
  }

  private List<String> column(String type, int count) {
    List<String> values = new ArrayList<>();
    if (type.startsWith("Nullable(")) {
      byte[] nulls = new byte[count];
      in.get(nulls);
      values = column(type.substring(9, type.length() - 1), count);
      for (int row = 0; row < count; row++) {
        if (nulls[row] != 0) {
          values.set(row, "NULL");
        }
      }
      return values;
    }
    if (type.startsWith("Map(") || type.startsWith("Array(")) {
      long[] ends = new long[count];
      for (int row = 0; row < count; row++) {
        ends[row] = in.getLong();
      }
      int all = count == 0 ? 0 : (int) ends[count - 1];
      boolean map = type.startsWith("Map(");
      List<String> first = column(map ? "String" : "UInt64", all);
      List<String> second = map ? column("UInt64", all) : first;
      for (int row = 0, at = 0; row < count; row++) {
        List<String> parts = new ArrayList<>();
        for (; at < ends[row]; at++) {
          parts.add(map ? first.get(at) + ":" + second.get(at) : first.get(at));
        }
        values.add(parts.toString());
      }
      return values;
    }
    for (int row = 0; row < count; row++) {
      values.add(value(type));
    }
    return values;
  }

  private String value(String type) {
    return switch (type) {
      case "String" -> string();
      case "UInt8" -> "" + (in.get() & 0xff);
      case "Bool", "Int8" -> "" + in.get();
      case "UInt16" -> "" + (in.getShort() & 0xffff);
      case "UInt32", "DateTime('UTC')" -> "" + Integer.toUnsignedString(in.getInt());
      case "UInt64" -> new BigInteger(Long.toUnsignedString(in.getLong())).toString();
      case "Float64" -> "" + in.getDouble();
      case "Int64", "DateTime64(3, 'UTC')" -> "" + in.getLong();
      case "IPv6" -> address();
      default -> throw new IllegalArgumentException(type);
    };
  }

  private String address() {
    byte[] bytes = new byte[16];
    in.get(bytes);
    try {
      return InetAddress.getByAddress(bytes).getHostAddress();
    } catch (UnknownHostException e) {
      throw new IllegalStateException(e);
    }
  }

  private String string() {
    byte[] bytes = new byte[varint()];
    in.get(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }

  private int varint() {
    int value = 0;
    for (int shift = 0; ; shift += 7) {
      byte next = in.get();
      value |= (next & 0x7f) << shift;
      if (next >= 0) {
        return value;
      }
    }
  }
}

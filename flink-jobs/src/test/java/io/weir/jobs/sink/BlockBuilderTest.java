package io.weir.jobs.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.weir.jobs.table.Table;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** Writes rows as a block of the Native format, and reads it back. */
class BlockBuilderTest {
  @Test
  void whateverIsSetIsReadBackAndTheRestIsDefault() {
    Random random = new Random(1);
    BlockBuilder builder = new BlockBuilder(Table.LEDGER);
    for (int block = 0; block < 30; block++) {
      List<Map<String, String>> expected = new ArrayList<>();
      int rows = 1 + random.nextInt(700); // past the first capacity, and builders are used again
      for (int row = 0; row < rows; row++) {
        builder.addRow();
        builder.set(0, 1_700_000_000L + row);
        Map<String, String> values = new TreeMap<>();
        values.put("ts", "" + (1_700_000_000L + row));
        for (int i = 1; i < Table.LEDGER.columns().size(); i++) {
          // Some columns stay empty in some blocks, and then are left out.
          if ((block + i) % 3 != 0 && random.nextInt(4) == 0) {
            set(builder, i, random, values);
          }
        }
        expected.add(values);
      }
      NativeBlock built = builder.build(202601);
      assertEquals(rows, built.rows());
      assertEquals(0, builder.rows());
      compare(expected, NativeReader.rows(built.bytes(), built.length()));
    }
  }

  private static void set(BlockBuilder builder, int i, Random random, Map<String, String> values) {
    Table.Column column = Table.LEDGER.columns().get(i);
    long number = random.nextInt(100);
    Object value;
    String text;
    switch (column.type()) {
      case STRING -> {
        value = "é".repeat(random.nextInt(90)); // lengths of two octets too
        text = (String) value;
      }
      case MAP -> {
        value = new TreeMap<>(Map.of("ring", number, "kernel", 7L));
        text = "[kernel:7, ring:" + number + "]";
      }
      case ARRAY_UINT64 -> {
        value = new long[] {number, -1};
        text = "[" + number + ", 18446744073709551615]";
      }
      case NULLABLE_INT64 -> {
        value = -number;
        text = "" + -number;
      }
      default -> {
        value = number;
        text = "" + number;
      }
    }
    builder.setObject(i, value);
    values.put(column.name(), text);
  }

  private static void compare(List<Map<String, String>> expected, List<Map<String, String>> read) {
    assertEquals(expected.size(), read.size());
    for (int row = 0; row < read.size(); row++) {
      Map<String, String> got = new TreeMap<>(read.get(row));
      got.values().removeIf(value -> List.of("0", "", "[]", "NULL").contains(value));
      Map<String, String> wanted = new TreeMap<>(expected.get(row));
      // The block distinguishes an absent number from every number, 0 included.
      if ("0".equals(wanted.get("clock_offset_us"))) {
        assertEquals("0", read.get(row).get("clock_offset_us"));
      }
      if (!wanted.containsKey("clock_offset_us")) {
        assertNotEquals("0", read.get(row).get("clock_offset_us"));
      }
      wanted.values().removeIf(value -> List.of("0", "", "[]").contains(value));
      assertEquals(wanted, got, "row " + row);
    }
  }

  @Test
  void columnsWithoutValuesAreLeftOut() {
    BlockBuilder builder = new BlockBuilder(Table.FLOWS);
    builder.addRow();
    builder.set(Table.FLOWS.index("src_port"), 0);
    builder.setAddress(Table.FLOWS.index("dst_addr"), 0x20010db8L << 32, 1);
    NativeBlock block = builder.build(19700101);
    Map<String, String> row = NativeReader.rows(block.bytes(), block.length()).get(0);
    assertNull(row.get("src_port"));
    assertEquals("0", row.get("ts"), "at least one column tells how many rows there are");
    assertEquals("2001:db8:0:0:0:0:0:1", row.get("dst_addr"));
  }

  @Test
  void numbersTooLargeAreTheLargest() {
    assertEquals(0xffff_ffffL, BlockBuilder.saturate32(1L << 32));
    assertEquals(0xffff_ffffL, BlockBuilder.saturate32(-1));
    assertEquals(5, BlockBuilder.saturate32(5));
  }
}

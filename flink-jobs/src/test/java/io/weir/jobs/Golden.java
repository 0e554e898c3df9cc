package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.weir.jobs.sink.NativeBlock;
import io.weir.jobs.sink.NativeReader;
import io.weir.jobs.table.TableRow;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Rows as readable lines, compared with a file. {@code mvn test -Dweir.golden=write} writes the
 * files again: review the changes before you commit them.
 */
final class Golden {
  private Golden() {}

  static void check(Path file, List<String> lines) throws IOException {
    if ("write".equals(System.getProperty("weir.golden"))) {
      Files.write(file, lines);
    }
    assertEquals(String.join("\n", Files.readAllLines(file)), String.join("\n", lines), "" + file);
  }

  /** All columns that are not empty, in the table's order. */
  static String line(TableRow row) throws IOException {
    StringBuilder line = new StringBuilder();
    for (int i = 0; i < row.cells().length; i++) {
      String name = row.table().columns().get(i).name();
      String text = text(name, row.cells()[i]);
      if (!text.isEmpty()) {
        line.append(line.isEmpty() ? "" : " ").append(name).append('=').append(text);
      }
    }
    return line.toString();
  }

  private static String text(String column, Object cell) throws IOException {
    if (cell == null) {
      return "";
    }
    if (cell instanceof byte[] address) {
      return InetAddress.getByAddress(address).getHostAddress();
    }
    if (cell instanceof long[] numbers) {
      List<String> texts = new ArrayList<>();
      for (long number : numbers) {
        texts.add("" + number);
      }
      return String.join(",", texts);
    }
    if (cell instanceof Map<?, ?> map) {
      return map.isEmpty() ? "" : map.toString().replace(" ", "");
    }
    if (column.equals("ts")) {
      return time(((Number) cell).longValue() * 1000);
    }
    if (column.endsWith("_at")) {
      if (((Number) cell).longValue() == 0) {
        return "";
      }
      return time(((Number) cell).longValue());
    }
    if (cell instanceof Double number) {
      return number == 0 ? "" : "" + Math.round(number * 1000) / 1000.0;
    }
    return cell.toString().equals("0") ? "" : cell.toString();
  }

  private static String time(long ms) {
    return Instant.ofEpochMilli(ms).toString().substring(11);
  }

  /** The rows of a block, all columns that are not empty, by name. */
  static List<String> lines(NativeBlock block) {
    List<String> lines = new ArrayList<>();
    for (Map<String, String> row : NativeReader.rows(block.bytes(), block.length())) {
      StringBuilder line = new StringBuilder();
      row.forEach(
          (name, value) -> {
            if (!List.of("0", "", "[]", "NULL", "0:0:0:0:0:0:0:0").contains(value)) {
              line.append(line.isEmpty() ? "" : " ").append(name).append('=').append(value);
            }
          });
      lines.add(line.toString());
    }
    return lines;
  }
}

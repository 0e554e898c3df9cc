package io.weir.jobs.sink;

import com.github.luben.zstd.ZstdInputStream;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.ConnectException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A store that remembers the tokens of the last blocks of each table, and may fail before or after
 * storing a block.
 */
final class StoreModel implements BlockStore {
  /** The fate of an insert. */
  enum Fate {
    STORED,
    STORED_THEN_ERROR,
    BUSY,
    AWAY
  }

  private final int remembered;
  private final Map<String, LinkedHashSet<String>> tokens = new HashMap<>();

  /** How often each row is stored, by its number; -1 counts altered rows. */
  final Map<Long, Integer> rows = new HashMap<>();

  /** Tokens that the store refuses for ever, with an error that suggests a retry. */
  final Set<String> refused = new HashSet<>();

  /** The rows of these. */
  final Set<Long> refusedRows = new HashSet<>();

  Fate next = Fate.STORED;

  /** Whether the next block is refused from now on. */
  boolean refuseNext;

  StoreModel(int remembered) {
    this.remembered = remembered;
  }

  @Override
  public void insert(String table, String token, byte[] body, long rows) throws IOException {
    Fate fate = next;
    next = Fate.STORED;
    if (refuseNext) {
      refuseNext = false;
      refused.add(token);
    }
    if (fate == Fate.AWAY) {
      throw new ConnectException("nobody listens");
    }
    if (refused.contains(token)) {
      read(body).forEach(row -> refusedRows.add(number(row)));
    }
    if (fate == Fate.BUSY || refused.contains(token)) {
      throw new IOException("ClickHouse answered 500");
    }
    LinkedHashSet<String> known = tokens.computeIfAbsent(table, key -> new LinkedHashSet<>());
    if (known.add(token)) {
      if (known.size() > remembered) {
        known.remove(known.iterator().next());
      }
      take(body);
    }
    if (fate == Fate.STORED_THEN_ERROR) {
      throw new IOException("ClickHouse answered 500");
    }
  }

  private static List<Map<String, String>> read(byte[] body) throws IOException {
    try (InputStream in = new ZstdInputStream(new ByteArrayInputStream(body))) {
      byte[] plain = in.readAllBytes();
      return NativeReader.rows(plain, plain.length);
    }
  }

  private static long number(Map<String, String> row) {
    return Long.parseLong(row.get("gap_packets"));
  }

  private void take(byte[] body) throws IOException {
    for (Map<String, String> row : read(body)) {
      long number = number(row);
      boolean whole = row.getOrDefault("clock_offset_us", "NULL").equals(offset(number));
      rows.merge(whole ? number : -1, 1, Integer::sum);
    }
  }

  /** A value of every third row; the others have none. */
  static String offset(long number) {
    return number % 3 == 0 ? "" + number : "NULL";
  }
}

package io.weir.jobs.sink;

import java.io.IOException;

/** Where blocks are inserted. */
interface BlockStore {
  /**
   * Inserts {@code body}, blocks of the Native format compressed with zstd, under a deduplication
   * token. When it returns, the rows are stored, now or by an earlier attempt with the same token.
   *
   * @throws ClickHouse.PermanentException if a retry cannot succeed
   * @throws IOException if a retry may succeed; the rows may or may not be stored
   */
  void insert(String table, String token, byte[] body, long rows)
      throws IOException, InterruptedException;
}

package io.weir.jobs.sink;

import java.io.IOException;
import java.io.Serializable;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Inserts files of blocks through ClickHouse's HTTP interface. */
public final class ClickHouse implements BlockStore {
  private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(5);
  private static final Duration INSERT_TIMEOUT = Duration.ofMinutes(2);

  /**
   * Error codes of ClickHouse that a retry cannot fix: 16 no such column, 27 and 33 unreadable
   * data, 47 unknown identifier, 48 not implemented, 53 type mismatch, 60 unknown table, 62 syntax,
   * 73 unknown format, 81 unknown database, 115 unknown setting, 117 incorrect data, 192 to 194 and
   * 516 user and password, 497 privileges, 164 read-only, 691 unknown enum value.
   */
  private static final Set<Integer> PERMANENT =
      Set.of(16, 27, 33, 47, 48, 53, 60, 62, 73, 81, 115, 117, 164, 192, 193, 194, 497, 516, 691);

  private static final Pattern CODE = Pattern.compile("Code: (\\d+)");
  private static final Pattern WRITTEN = Pattern.compile("\"written_rows\":\"?(\\d+)");

  /** Where and as whom. {@link #toString()} leaves {@code password} out. */
  public record Endpoint(String url, String database, String user, Secret password)
      implements Serializable {
    @Override
    public String toString() {
      return url + " database " + database + " as " + user;
    }
  }

  /** ClickHouse refused the rows for good. */
  public static final class PermanentException extends IOException {
    private static final long serialVersionUID = 1;

    PermanentException(String message) {
      super(message);
    }
  }

  private final Endpoint endpoint;
  private final HttpClient client;

  public ClickHouse(Endpoint endpoint) {
    this.endpoint = endpoint;
    client =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(CONNECT_TIMEOUT)
            .build();
  }

  @Override
  public void insert(String table, String token, byte[] body, long rows)
      throws IOException, InterruptedException {
    String query = "INSERT INTO " + table + " FORMAT Native";
    String uri =
        endpoint.url()
            + "/?database="
            + encode(endpoint.database())
            + "&query="
            + encode(query)
            + "&insert_deduplication_token="
            + encode(token)
            + "&log_comment="
            + encode(token)
            + "&insert_deduplicate=1&async_insert=0"
            + "&deduplicate_blocks_in_dependent_materialized_views=1"
            // Few rows of a block can be added up, or replace each other; merges do it later.
            + "&optimize_on_insert=0"
            + "&input_format_native_allow_types_conversion=1"
            // One insert makes one part: a file never has as many rows.
            + "&min_insert_block_size_rows=1048576&min_insert_block_size_bytes=0"
            + "&max_insert_block_size=1048576&wait_end_of_query=1";
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(uri))
            .timeout(INSERT_TIMEOUT)
            .header("X-ClickHouse-User", endpoint.user())
            .header("X-ClickHouse-Key", endpoint.password().read())
            .header("Content-Encoding", "zstd")
            .header("Content-Type", "application/octet-stream")
            .POST(HttpRequest.BodyPublishers.ofByteArray(body))
            .build();
    HttpResponse<String> response =
        client.send(request, HttpResponse.BodyHandlers.ofString(StandardCharsets.UTF_8));
    if (response.statusCode() == 200) {
      Matcher written =
          WRITTEN.matcher(response.headers().firstValue("X-ClickHouse-Summary").orElse(""));
      // Dropped repeats count as written, and a view's rows are added: only fewer means that some
      // were lost.
      if (written.find()
          && Long.parseLong(written.group(1)) < rows
          && !written.group(1).equals("0")) {
        throw new PermanentException(
            "ClickHouse took " + written.group(1) + " of " + rows + " rows of block " + token);
      }
      return;
    }
    String text = response.body().strip();
    String message =
        "ClickHouse answered "
            + response.statusCode()
            + " to block "
            + token
            + ": "
            + (text.length() > 500 ? text.substring(0, 500) + "..." : text);
    int code =
        response
            .headers()
            .firstValue("X-ClickHouse-Exception-Code")
            .map(ClickHouse::number)
            .orElseGet(() -> codeIn(text));
    int status = response.statusCode();
    boolean transientStatus = status == 408 || status == 429 || status >= 500;
    if (PERMANENT.contains(code) || !transientStatus) {
      throw new PermanentException(message);
    }
    throw new IOException(message);
  }

  private static int codeIn(String text) {
    Matcher matcher = CODE.matcher(text);
    return matcher.find() ? number(matcher.group(1)) : 0;
  }

  private static int number(String digits) {
    try {
      return Integer.parseInt(digits.strip());
    } catch (NumberFormatException e) {
      return 0;
    }
  }

  private static String encode(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8);
  }
}

package io.weir.jobs.sink;

import com.github.luben.zstd.ZstdInputStream;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.function.Function;

/**
 * The part of ClickHouse's HTTP interface that the sink uses, with every failure that may occur.
 */
public final class FakeClickHouse implements AutoCloseable {
  /** The fate of an insert. */
  public enum Fate {
    /** Stored and acknowledged. */
    STORED,
    /** Stored, but the answer is an error. */
    STORED_THEN_ERROR,
    /** Stored, but the connection breaks before the answer. */
    STORED_THEN_CUT,
    /** Not stored, a temporary error. */
    BUSY,
    /** Stored, except for one row. */
    ONE_ROW_LESS,
    /** Never stored: there is no such table. */
    NO_TABLE
  }

  private final HttpServer server;
  private final Function<Integer, Fate> fate;
  private final Set<String> tokens = new HashSet<>();
  private final List<Map<String, String>> rows = new ArrayList<>();
  private final List<String> posts = new ArrayList<>();
  private final Map<String, Integer> rowsOfToken = new HashMap<>();
  private int repeats;
  private String problem = "";

  /** {@code fate} gives the fate of the nth insert, from 0. */
  public FakeClickHouse(Function<Integer, Fate> fate) throws IOException {
    this.fate = fate;
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.setExecutor(Executors.newFixedThreadPool(4));
    server.createContext("/", this::handle);
    server.start();
  }

  public String url() {
    return "http://127.0.0.1:" + server.getAddress().getPort();
  }

  /** Every row that is stored, with its table under {@code _table}. */
  public synchronized List<Map<String, String>> rows() {
    return new ArrayList<>(rows);
  }

  /** The tokens of all posts in order. */
  public synchronized List<String> posts() {
    return new ArrayList<>(posts);
  }

  /** Posts whose rows were dropped because of their token. */
  public synchronized int repeats() {
    return repeats;
  }

  /** The client's error, empty if there was none. */
  public synchronized String problem() {
    return problem;
  }

  private void handle(HttpExchange exchange) throws IOException {
    Map<String, String> parameters = new HashMap<>();
    for (String pair : exchange.getRequestURI().getRawQuery().split("&")) {
      int equals = pair.indexOf('=');
      parameters.put(
          pair.substring(0, equals),
          URLDecoder.decode(pair.substring(equals + 1), StandardCharsets.UTF_8));
    }
    byte[] body;
    try (InputStream in = new ZstdInputStream(exchange.getRequestBody())) {
      body = in.readAllBytes();
    }
    Fate fate = store(exchange, parameters, body);
    switch (fate) {
      case STORED -> answer(exchange, 200, "");
      case ONE_ROW_LESS -> {
        int rows = NativeReader.rows(body, body.length).size();
        String summary = "{\"written_rows\":\"%d\"}".formatted(rows - 1);
        exchange.getResponseHeaders().set("X-ClickHouse-Summary", summary);
        answer(exchange, 200, "");
      }
      case STORED_THEN_ERROR -> answer(exchange, 500, "Code: 210. DB::NetException: lost");
      case STORED_THEN_CUT -> exchange.close();
      case BUSY -> answer(exchange, 503, "Code: 202. DB::Exception: too many queries");
      case NO_TABLE -> answer(exchange, 404, "Code: 60. DB::Exception: no such table");
    }
  }

  private synchronized Fate store(
      HttpExchange exchange, Map<String, String> parameters, byte[] body) {
    Fate now = fate.apply(posts.size());
    String token = parameters.getOrDefault("insert_deduplication_token", "");
    posts.add(token);
    if (token.isEmpty() || !"0".equals(parameters.get("async_insert"))) {
      problem = "no token, or asynchronous: " + parameters;
    }
    if (!"secret".equals(exchange.getRequestHeaders().getFirst("X-ClickHouse-Key"))) {
      problem = "no password";
    }
    if (now == Fate.BUSY || now == Fate.NO_TABLE) {
      return now;
    }
    List<Map<String, String>> read = NativeReader.rows(body, body.length);
    Integer before = rowsOfToken.put(token, read.size());
    if (before != null && before != read.size()) {
      problem = "token " + token + " stands for other rows";
    }
    if (tokens.add(token)) {
      String table = parameters.get("query").split(" ")[2];
      read.forEach(row -> row.put("_table", table));
      rows.addAll(read);
    } else {
      repeats++;
    }
    return now;
  }

  private static void answer(HttpExchange exchange, int status, String text) throws IOException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
    exchange.getResponseBody().write(bytes);
    exchange.close();
  }

  @Override
  public void close() {
    server.stop(0);
  }
}

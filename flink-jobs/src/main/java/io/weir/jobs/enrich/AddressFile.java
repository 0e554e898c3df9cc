package io.weir.jobs.enrich;

import com.maxmind.db.CHMCache;
import com.maxmind.db.DatabaseRecord;
import com.maxmind.db.InvalidDatabaseException;
import com.maxmind.db.InvalidNetworkException;
import com.maxmind.db.MaxMindDbConstructor;
import com.maxmind.db.MaxMindDbParameter;
import com.maxmind.db.Network;
import com.maxmind.db.Networks;
import com.maxmind.db.Reader;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.TreeMap;

/**
 * The values for addresses in a file of MaxMind's database format, all extracted at once: walking
 * and decoding its tree for each record would cost more than all other work on a record. The fields
 * are those of GeoLite2 and DB-IP.
 */
final class AddressFile {
  /** Longest name or message, characters. */
  private static final int LONGEST = 200;

  /** The value extracted from a file. */
  enum Kind {
    /** {@code autonomous_system_number}, {@code autonomous_system_organization}. */
    SYSTEMS,
    /** {@code country.iso_code}. */
    COUNTRIES
  }

  /** The values by address; names where there are any. */
  record Content(AddressMap map, Known.Names names) {}

  private AddressFile() {}

  /**
   * Reads the file whole.
   *
   * @throws IOException if the file is unreadable or of the wrong kind; the message is one line
   */
  static Content read(Path path, Kind kind) throws IOException {
    // Read into memory: if the file were mapped, overwriting it would end the process.
    try (InputStream in = Files.newInputStream(path);
        Reader reader = new Reader(in, new CHMCache())) {
      return kind == Kind.SYSTEMS ? systems(reader) : countries(reader);
    } catch (NoSuchFileException e) {
      throw new IOException("there is no such file", e);
    } catch (InvalidDatabaseException e) {
      throw new IOException("it is not a MaxMind database: " + oneLine(e), e);
    } catch (InvalidNetworkException | RuntimeException e) {
      // The file's tree or data point outside the file; the reader does not check everything.
      throw new IOException("its content is broken: " + oneLine(e), e);
    }
  }

  private static String oneLine(Exception e) {
    return cut(String.valueOf(e.getMessage()).replaceAll("\\s+", " "));
  }

  private static String cut(String text) {
    return text.length() > LONGEST ? text.substring(0, LONGEST) + "..." : text;
  }

  private static Content systems(Reader reader) throws IOException, InvalidNetworkException {
    AddressMap.Builder builder = new AddressMap.Builder();
    TreeMap<Integer, String> names = new TreeMap<>(Integer::compareUnsigned);
    Networks<Origin> networks = reader.networks(Origin.class);
    while (networks.hasNext()) {
      DatabaseRecord<Origin> record = networks.next();
      Origin origin = record.getData();
      if (origin != null && origin.number != null && origin.number >>> 32 == 0) {
        Network network = record.getNetwork();
        int number = origin.number.intValue();
        builder.add(network.getNetworkAddress(), network.getPrefixLength(), number);
        if (origin.name != null) {
          names.putIfAbsent(number, cut(origin.name));
        }
      }
    }
    // A broken file's value must not leave the column's range.
    long builtAt = reader.getMetadata().getBuildDate().toInstant().getEpochSecond();
    builtAt = Math.max(0, Math.min(builtAt, 0xffff_ffffL));
    return new Content(builder.build(), new Known.Names(names, builtAt));
  }

  private static Content countries(Reader reader) throws IOException, InvalidNetworkException {
    AddressMap.Builder builder = new AddressMap.Builder();
    Networks<Place> networks = reader.networks(Place.class);
    while (networks.hasNext()) {
      DatabaseRecord<Place> record = networks.next();
      Place place = record.getData();
      if (place != null && place.country != null) {
        Network network = record.getNetwork();
        builder.add(
            network.getNetworkAddress(), network.getPrefixLength(), code(place.country.code));
      }
    }
    return new Content(builder.build(), Known.Names.NONE);
  }

  /** First letter * 256 + second; 0 if it is not a code of ISO 3166-1. */
  private static int code(String letters) {
    return letters != null && letters.matches("[A-Z]{2}")
        ? (letters.charAt(0) << 8) | letters.charAt(1)
        : 0;
  }

  /** A record of a file of autonomous systems. Public, because the reader creates it. */
  public static final class Origin {
    final Long number;
    final String name;

    @MaxMindDbConstructor
    public Origin(
        @MaxMindDbParameter(name = "autonomous_system_number") Long number,
        @MaxMindDbParameter(name = "autonomous_system_organization") String name) {
      this.number = number;
      this.name = name;
    }
  }

  /** A record of a file of countries, or of cities. */
  public static final class Place {
    final Country country;

    @MaxMindDbConstructor
    public Place(@MaxMindDbParameter(name = "country") Country country) {
      this.country = country;
    }
  }

  /** The country of a {@link Place}. */
  public static final class Country {
    final String code;

    @MaxMindDbConstructor
    public Country(@MaxMindDbParameter(name = "iso_code") String code) {
      this.code = code;
    }
  }
}

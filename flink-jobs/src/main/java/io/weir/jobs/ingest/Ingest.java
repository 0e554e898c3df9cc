package io.weir.jobs.ingest;

import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.ledger.LedgerFunction;
import io.weir.jobs.sink.NativeBlock;

/** The job {@code ingest}: stores every record as a row, and keeps the ledger. */
public final class Ingest extends Job {
  /** Declares the job. */
  public Ingest() {
    super("ingest", "stores every flow record, sets unreadable messages aside, keeps the ledger");
  }

  @Override
  public void attach(Streams streams) {
    streams.setAside();
    streams.store(
        "flows",
        streams.accepted().transform("flows", NativeBlock.TYPE, new BatchBlocks()).uid("flows"));
    streams.storeRows("autonomous-systems", streams.autonomousSystems());
    streams.storeRows(
        "ledger",
        LedgerFunction.rows(
            streams.events(),
            streams.enrolments(),
            streams.grace(),
            streams.options().start.equals("latest")));
  }
}

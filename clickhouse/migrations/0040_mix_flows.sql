-- A flow counts in both directions in which it has packets: a download is traffic and a flow of `in`, too.

ALTER TABLE mixes
    MODIFY COLUMN flows UInt64 COMMENT 'Flows that began in the window: in and out each count those that had packets in this direction in the 30 seconds in which they began, the other directions count each once; summed over windows, they give all flows of the direction';

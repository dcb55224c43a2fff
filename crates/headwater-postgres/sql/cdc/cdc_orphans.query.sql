-- Lists slots that nobody reads, and nobody will.
SELECT o.slot, o.namespace, o.reason FROM headwater.cdc_orphans($1 * interval '1 second') o

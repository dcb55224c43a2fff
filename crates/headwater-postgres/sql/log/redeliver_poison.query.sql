-- Delivers one repaired poison event.
SELECT headwater.redeliver_poison($1, $2)

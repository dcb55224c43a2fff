-- Lists poison, in log order.
SELECT * FROM headwater.poison($1, $2, $3)

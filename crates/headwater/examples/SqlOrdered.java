import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Ordered, exactly-once consuming from Java, with JDBC: a transaction per host and user, over the partitions of a group.
 *
 * <p>DATABASE_URL=postgres://… java -cp postgresql.jar crates/headwater/examples/SqlOrdered.java
 *
 * <p>The database must be migrated (`headwater migrate`). {@link Worker} is all that a consumer needs; the rest is the demonstration.
 */
public class SqlOrdered {
    static final String NAMESPACE = "example-java";
    static final String SUBSCRIBER = "user-query";

    record Partition(int number, long term) {}

    record Event(String cursor, long sequence, String host, String user, String type, String data) {}

    interface Handler {
        void handle(Connection db, Event event) throws SQLException;
    }

    /** Handles events until it is told to stop: those of one host and user in one transaction, with the progress. */
    record Worker(Handler handler, UUID id, AtomicBoolean running) implements Runnable {
        @Override
        public void run() {
            try (Connection db = connect()) {
                db.setAutoCommit(false);
                while (running.get()) {
                    boolean busy = false;
                    for (Partition partition : lease(db)) {
                        busy |= consume(db, partition);
                    }
                    if (!busy) {
                        Thread.sleep(100);
                    }
                }
                try (PreparedStatement release = prepare(db, "SELECT headwater.release_partitions(?, ?, ?)", NAMESPACE, SUBSCRIBER, id)) {
                    release.execute();
                }
                db.commit();
            } catch (SQLException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }

        private List<Partition> lease(Connection db) throws SQLException {
            List<Partition> owned = new ArrayList<>();
            String sql = "SELECT partition, term FROM headwater.lease_partitions(?, ?, ?, lease => '2 s')";
            try (PreparedStatement lease = prepare(db, sql, NAMESPACE, SUBSCRIBER, id); ResultSet rows = lease.executeQuery()) {
                while (rows.next()) {
                    owned.add(new Partition(rows.getInt(1), rows.getLong(2)));
                }
            }
            db.commit();
            return owned;
        }

        private boolean consume(Connection db, Partition of) throws SQLException {
            List<Event> page = new ArrayList<>();
            List<Event> bundle = List.of();
            try {
                String sql = "SELECT cursor, global_sequence, key, actor_id, event_type, data"
                    + " FROM headwater.next_events(?, ?, ?, ?, max_events => 100, scope => 'key_and_actor')";
                try (PreparedStatement next = prepare(db, sql, NAMESPACE, SUBSCRIBER, of.number, of.term); ResultSet e = next.executeQuery()) {
                    while (e.next()) {
                        page.add(new Event(e.getString(1), e.getLong(2), e.getString(3), e.getString(4), e.getString(5), e.getString(6)));
                    }
                }
                db.commit();
                for (int from = 0, to = 1; to <= page.size(); to++) {
                    // The last event of a bundle has a cursor.
                    String cursor = page.get(to - 1).cursor;
                    if (cursor == null) {
                        continue;
                    }
                    bundle = page.subList(from, to);
                    from = to;
                    for (Event event : bundle) {
                        handler.handle(db, event);
                    }
                    try (PreparedStatement s = prepare(db, "SELECT headwater.settle(?, ?, ?, ?, ?)", NAMESPACE, SUBSCRIBER, of.number, of.term, cursor)) {
                        s.execute();
                    }
                    db.commit();
                    bundle = List.of();
                }
            } catch (SQLException error) {
                db.rollback();
                if (isLost(error)) {
                    return false;
                }
                if (bundle.isEmpty()) {
                    throw error;
                }
                String fail = "SELECT outcome FROM headwater.fail_events(?, ?, ?, ?, ?, error => ?, max_attempts => 2, delay => '0')";
                // All of it was rolled back, so all of it failed. The rest of the page waits behind it.
                Object failed = db.createArrayOf("bigint", bundle.stream().map(Event::sequence).toArray());
                try (PreparedStatement f = prepare(db, fail, NAMESPACE, SUBSCRIBER, of.number, of.term, failed, error.getMessage())) {
                    f.execute();
                    db.commit();
                } catch (SQLException refused) {
                    if (!isLost(refused)) {
                        throw refused;
                    }
                    db.rollback();
                }
            }
            return !page.isEmpty();
        }

        /** Whether another worker owns the partition by now: nothing of ours was kept. */
        private static boolean isLost(SQLException error) {
            return "WH011".equals(error.getSQLState()) || "WH050".equals(error.getSQLState());
        }
    }

    static PreparedStatement prepare(Connection db, String sql, Object... values) throws SQLException {
        PreparedStatement statement = db.prepareStatement(sql);
        for (int i = 0; i < values.length; i++) {
            statement.setObject(i + 1, values[i]);
        }
        return statement;
    }

    static Connection connect() throws SQLException {
        URI url = URI.create(System.getenv("DATABASE_URL"));
        Properties as = new Properties();
        if (url.getUserInfo() != null) {
            String[] user = url.getUserInfo().split(":", 2);
            as.setProperty("user", user[0]);
            as.setProperty("password", user.length > 1 ? user[1] : "");
        }
        return DriverManager.getConnection("jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath(), as);
    }

    /** The effect of an event: any SQL. An event that cannot be handled fails. */
    static void handle(Connection db, Event event) throws SQLException {
        String sql = "INSERT INTO effects (host, username, type, sequence, handled_in) VALUES (?, ?, ?, ?, pg_current_xact_id()::text)";
        try (PreparedStatement insert = prepare(db, sql, event.host, event.user, event.type, event.sequence)) {
            insert.execute();
        }
    }

    static long ask(Connection db, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepare(db, sql, values); ResultSet rows = statement.executeQuery()) {
            rows.next();
            return rows.getLong(1);
        }
    }

    static void expect(long expected, long actual, String what) {
        System.out.println(what + ": " + actual);
        if (expected != actual) {
            throw new IllegalStateException(expected + " expected");
        }
    }

    public static void main(String[] args) throws Exception {
        try (Connection db = connect()) {
            db.createStatement().execute("CREATE TABLE effects (host text, username text, type text CHECK (type <> 'Broken'), sequence bigint, handled_in text)");
            prepare(db, "SELECT headwater.create_namespace(?)", NAMESPACE).execute();
            prepare(db, "SELECT headwater.register_subscriber(?, ?, mode => 'partitioned', partitions => 4)", NAMESPACE, SUBSCRIBER).execute();
            String emit = "SELECT headwater.emit(?, 'Changed', key => 'host-' || n % 5, actor_id => ?) FROM generate_series(1, ?) n";
            prepare(db, emit, NAMESPACE, "ada", 250).execute();
            // An event in the middle of these cannot be handled.
            String broken = "SELECT headwater.emit(?, CASE n WHEN 2 THEN 'Broken' ELSE 'Changed' END, key => 'host-1', actor_id => 'nobody')"
                + " FROM generate_series(1, 3) n";
            prepare(db, broken, NAMESPACE).execute();
            prepare(db, emit, NAMESPACE, "grace", 250).execute();

            AtomicBoolean running = new AtomicBoolean(true);
            List<Thread> workers = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                workers.add(new Thread(new Worker(SqlOrdered::handle, UUID.randomUUID(), running)));
            }
            workers.forEach(Thread::start);
            String behind = "SELECT count(*) FROM headwater.group_status(?, ?) WHERE position < headwater.log_end(?)";
            while (ask(db, behind, NAMESPACE, SUBSCRIBER, NAMESPACE) > 0) {
                Thread.sleep(50);
            }
            running.set(false);
            for (Thread worker : workers) {
                worker.join();
            }
            expect(500, ask(db, "SELECT count(DISTINCT sequence) FROM effects"), "events with effects");
            expect(500, ask(db, "SELECT count(*) FROM effects"), "effects");
            // Per host and user, what one transaction appended was handled in one transaction.
            expect(10, ask(db, "SELECT count(DISTINCT (host, username, handled_in)) FROM effects"), "transactions");
            expect(3, ask(db, "SELECT count(*) FROM headwater.read_dead_letters(?, ?)", NAMESPACE, SUBSCRIBER), "dead letters");
            expect(0, ask(db, "SELECT count(*) FROM headwater.audit_subscribers(?) WHERE in_log <> settled", NAMESPACE), "findings of the audit");
            System.out.println("done");
        }
    }
}

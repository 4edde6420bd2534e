import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Finding single messages. */
final class Queries {
    private interface Work {
        Object with(DefaultMQAdminExt admin) throws Exception;
    }

    private Queries() {
    }

    static Object byKey(Call call) throws Exception {
        return withAdmin(call, admin -> Facts.ofMessages(admin.queryMessage(call.text("topic"), call.text("key"),
            call.number("count", 32), call.large("begin", 0), call.large("end", Long.MAX_VALUE)).getMessageList()));
    }

    /** Find by the id that the producer made. */
    static Object byUniqueKey(Call call) throws Exception {
        return withAdmin(call, admin -> Facts.of((MessageExt) admin.viewMessage(call.text("topic"), call.text("id"))));
    }

    /** Find by the id that tells broker and place in its log. */
    static Object byOffsetId(Call call) throws Exception {
        return withAdmin(call, admin -> Facts.of((MessageExt) admin.viewMessage(call.text("id"))));
    }

    private static Object withAdmin(Call call, Work work) throws Exception {
        DefaultMQAdminExt admin = call.configure(new DefaultMQAdminExt());
        admin.start();
        try {
            return work.with(admin);
        } finally {
            admin.shutdown();
        }
    }
}

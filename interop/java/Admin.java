import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/** Apache's mqadmin, run inside this JVM. */
final class Admin {
    private Admin() {
    }

    /** Run a command with its options, separated by blanks, and return what it printed. */
    static Object run(Call call) throws ReflectiveOperationException {
        forgetCommands();
        PrintStream usualOut = System.out;
        PrintStream usualErr = System.err;
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        try {
            MQAdminStartup.main0(call.text("command").split(" "), null);
        } finally {
            System.setOut(usualOut);
            System.setErr(usualErr);
        }
        return Map.of("out", out.toString(StandardCharsets.UTF_8), "err", err.toString(StandardCharsets.UTF_8));
    }

    /** Return the names of all commands. */
    static Object commands(Call call) throws ReflectiveOperationException {
        forgetCommands();
        MQAdminStartup.initCommand();
        return commandList().stream().map(SubCommand::commandName).collect(Collectors.toList());
    }

    /** Have mqadmin make its commands anew, as a new process does: some work once only. */
    private static void forgetCommands() throws ReflectiveOperationException {
        commandList().clear();
    }

    @SuppressWarnings("unchecked")
    private static List<SubCommand> commandList() throws ReflectiveOperationException {
        Field commands = MQAdminStartup.class.getDeclaredField("subCommandList");
        commands.setAccessible(true);
        return (List<SubCommand>) commands.get(null);
    }
}

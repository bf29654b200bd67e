"""Who speaks, and which tools run: a file a framework; their calls themselves are seen where their bytes pass.

`FRAMEWORKS` names functions of a framework and what in our file is put around them. A release that has none of these
functions costs the roles and tools, never a call.
"""

FRAMEWORKS = (
    ("agentlightning.emitter.annotation:emit_annotation", "agent_lightning.Event"),
    ("agentlightning.emitter.exception:emit_exception", "agent_lightning.Event"),
    ("agentlightning.emitter.message:emit_message", "agent_lightning.Event"),
    ("agentlightning.emitter.object:emit_object", "agent_lightning.Event"),
    ("agentlightning.emitter.reward:emit_reward", "agent_lightning.Reward"),
    ("agentlightning.emitter.reward:reward.<locals>.wrap_result", "agent_lightning.DecoratedReward"),
    ("agents.run_internal.run_loop:run_single_turn", "openai_agents.Speaker"),
    ("agents.run_internal.run_loop:run_single_turn_streamed", "openai_agents.Speaker"),
    ("agents.tool:_invoke_function_tool_with_metadata", "openai_agents.UsedTool"),
    ("autogen_agentchat.agents._assistant_agent:AssistantAgent.on_messages_stream", "autogen.Speaker"),
    ("autogen_core.tools._base:BaseTool.run_json", "autogen.UsedTool"),
    ("langchain_core.language_models.chat_models:BaseChatModel.generate", "langchain.Speaker"),
    ("langchain_core.language_models.chat_models:BaseChatModel.agenerate", "langchain.Speaker"),
    ("langchain_core.language_models.chat_models:BaseChatModel.stream", "langchain.Speaker"),
    ("langchain_core.language_models.chat_models:BaseChatModel.astream", "langchain.Speaker"),
    ("langchain_core.tools.base:BaseTool.run", "langchain.UsedTool"),
    ("langchain_core.tools.base:BaseTool.arun", "langchain.UsedTool"),
)

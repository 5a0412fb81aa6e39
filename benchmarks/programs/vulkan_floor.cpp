// Times least dispatches of a command buffer by the device's clock, by what orders them.
//
// Arguments: a text in the device's name, how many dispatches, how many runs, and the cubes of
// kernels that wait. A line for each way: its name, the least nanoseconds of a dispatch, and whether
// the result was right (no for ways that order nothing). The device is busy when the first dispatch
// begins, so it has read the whole command buffer.

#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels.h"

#define OF_INSTANCE(X)                                                                  \
  X(CreateDevice) X(EnumeratePhysicalDevices) X(GetDeviceProcAddr)                      \
  X(GetPhysicalDeviceMemoryProperties) X(GetPhysicalDeviceProperties)                   \
  X(GetPhysicalDeviceQueueFamilyProperties)
#define OF_DEVICE(X)                                                                    \
  X(AllocateCommandBuffers) X(AllocateDescriptorSets) X(AllocateMemory)                 \
  X(BeginCommandBuffer) X(BindBufferMemory) X(CmdBindDescriptorSets) X(CmdBindPipeline) \
  X(CmdCopyBuffer) X(CmdDispatch) X(CmdFillBuffer) X(CmdPipelineBarrier)                \
  X(CmdPushConstants) X(CmdResetQueryPool) X(CmdWriteTimestamp) X(CreateBuffer)         \
  X(CreateCommandPool)                                                                  \
  X(CreateComputePipelines) X(CreateDescriptorPool) X(CreateDescriptorSetLayout)        \
  X(CreatePipelineLayout) X(CreateQueryPool) X(CreateShaderModule)                      \
  X(EndCommandBuffer) X(GetBufferMemoryRequirements) X(GetDeviceQueue)                  \
  X(GetQueryPoolResults) X(MapMemory) X(QueueSubmit) X(QueueWaitIdle)                   \
  X(ResetCommandPool) X(UpdateDescriptorSets)
#define DECLARE(name) static PFN_vk##name vk##name;
OF_INSTANCE(DECLARE)
OF_DEVICE(DECLARE)

static void check(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  std::fprintf(stderr, "%s fails with %d\n", what, result);
  std::exit(1);
}
#define CHECK(call) check(call, #call)

static const VkPipelineStageFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
static const VkAccessFlags kRead = VK_ACCESS_SHADER_READ_BIT, kWrite = VK_ACCESS_SHADER_WRITE_BIT;
static const VkDeviceSize kBytes = 4096;
static const int kChains = 4;

using Commands = VkCommandBuffer;

struct Bench {
  VkPhysicalDevice physical{};
  VkDevice device{};
  VkQueue queue{};
  VkCommandPool pool{};
  VkQueryPool times{};
  VkPipelineLayout layout{};
  VkDescriptorSet sets[kChains]{};
  VkBuffer buffers[kChains]{}, results{};
  VkPipeline least{}, waits{}, stays{};
  const uint32_t* seen = nullptr;
  double period = 1;
  int count = 400, runs = 15;

  VkBuffer buffer(VkMemoryPropertyFlags wanted, const uint32_t** mapped) {
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = kBytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    VkBuffer made;
    CHECK(vkCreateBuffer(device, &info, nullptr, &made));
    VkMemoryRequirements need;
    vkGetBufferMemoryRequirements(device, made, &need);
    VkPhysicalDeviceMemoryProperties has;
    vkGetPhysicalDeviceMemoryProperties(physical, &has);
    uint32_t kind = 0;
    while (!(need.memoryTypeBits >> kind & 1) ||
           (has.memoryTypes[kind].propertyFlags & wanted) != wanted)
      if (++kind == has.memoryTypeCount) check(VK_ERROR_FEATURE_NOT_PRESENT, "memory");
    VkMemoryAllocateInfo room{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, need.size, kind};
    VkDeviceMemory memory;
    CHECK(vkAllocateMemory(device, &room, nullptr, &memory));
    CHECK(vkBindBufferMemory(device, made, memory, 0));
    if (mapped) CHECK(vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, (void**)mapped));
    return made;
  }

  VkPipeline pipeline(const uint32_t* words, size_t bytes) {
    VkShaderModuleCreateInfo text{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    text.codeSize = bytes;
    text.pCode = words;
    VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    info.layout = layout;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.pName = "main";
    CHECK(vkCreateShaderModule(device, &text, nullptr, &info.stage.module));
    VkPipeline made;
    CHECK(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, nullptr, &made));
    return made;
  }

  void open(VkPhysicalDevice chosen, uint32_t family) {
    physical = chosen;
    float priority = 1;
    VkDeviceQueueCreateInfo queues{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queues.queueFamilyIndex = family;
    queues.queueCount = 1;
    queues.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queues;
    CHECK(vkCreateDevice(physical, &info, nullptr, &device));
#define LOAD(name) vk##name = (PFN_vk##name)vkGetDeviceProcAddr(device, "vk" #name);
    OF_DEVICE(LOAD)
    vkGetDeviceQueue(device, family, 0, &queue);
    VkCommandPoolCreateInfo pools{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pools.queueFamilyIndex = family;
    CHECK(vkCreateCommandPool(device, &pools, nullptr, &pool));
    VkQueryPoolCreateInfo queries{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
    queries.queryCount = 2;
    CHECK(vkCreateQueryPool(device, &queries, nullptr, &times));

    VkDescriptorSetLayoutBinding binding{0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                                         VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo of_sets{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    of_sets.bindingCount = 1;
    of_sets.pBindings = &binding;
    VkDescriptorSetLayout set;
    CHECK(vkCreateDescriptorSetLayout(device, &of_sets, nullptr, &set));
    VkPushConstantRange numbers{VK_SHADER_STAGE_COMPUTE_BIT, 0, 4};
    VkPipelineLayoutCreateInfo layouts{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    layouts.setLayoutCount = layouts.pushConstantRangeCount = 1;
    layouts.pSetLayouts = &set;
    layouts.pPushConstantRanges = &numbers;
    CHECK(vkCreatePipelineLayout(device, &layouts, nullptr, &layout));
    VkDescriptorPoolSize sizes{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kChains};
    VkDescriptorPoolCreateInfo descriptors{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    descriptors.maxSets = kChains;
    descriptors.poolSizeCount = 1;
    descriptors.pPoolSizes = &sizes;
    VkDescriptorPool room;
    CHECK(vkCreateDescriptorPool(device, &descriptors, nullptr, &room));
    for (int i = 0; i < kChains; ++i) {
      buffers[i] = buffer(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, nullptr);
      VkDescriptorSetAllocateInfo one{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, nullptr, room,
                                      1, &set};
      CHECK(vkAllocateDescriptorSets(device, &one, &sets[i]));
      VkDescriptorBufferInfo whole{buffers[i], 0, VK_WHOLE_SIZE};
      VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
      write.dstSet = sets[i];
      write.descriptorCount = 1;
      write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
      write.pBufferInfo = &whole;
      vkUpdateDescriptorSets(device, 1, &write, 0, nullptr);
    }
    results = buffer(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                     &seen);
    least = pipeline(least_words, sizeof least_words);
    waits = pipeline(waits_words, sizeof waits_words);
    stays = pipeline(stays_words, sizeof stays_words);
  }

  static void order(Commands c, VkPipelineStageFlags from, VkAccessFlags before,
                    VkPipelineStageFlags to, VkAccessFlags behind) {
    VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, before, behind};
    vkCmdPipelineBarrier(c, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
  }

  // Sets one number, and dispatches cubes on a buffer.
  void dispatch(Commands c, uint32_t number, uint32_t cubes = 1) {
    vkCmdPushConstants(c, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4, &number);
    vkCmdDispatch(c, cubes, 1, 1);
  }

  void begin(Commands c, VkPipeline pipeline, int chain = 0) {
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &sets[chain], 0,
                            nullptr);
  }

  void clear(Commands c) {
    order(c, kCompute, kRead | kWrite, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
    for (VkBuffer one : buffers) vkCmdFillBuffer(c, one, 0, VK_WHOLE_SIZE, 0);
    order(c, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, kCompute, kRead | kWrite);
  }

  // Prints the least nanoseconds of a dispatch, and whether the first value is as expected.
  void time(const std::string& name, uint32_t expected, const std::function<void(Commands)>& record) {
    double found = 1e30;
    bool right = true;
    for (int run = 0; run < runs; ++run) {
      VkCommandBufferAllocateInfo one{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool,
                                      VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
      Commands c;
      CHECK(vkAllocateCommandBuffers(device, &one, &c));
      VkCommandBufferBeginInfo once{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
      once.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
      CHECK(vkBeginCommandBuffer(c, &once));
      vkCmdResetQueryPool(c, times, 0, 2);
      clear(c);
      begin(c, stays);
      dispatch(c, uint32_t(count));
      clear(c);
      vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, times, 0);
      record(c);
      vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, times, 1);
      order(c, kCompute, kWrite, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT);
      VkBufferCopy all{0, 0, kBytes};
      vkCmdCopyBuffer(c, buffers[0], results, 1, &all);
      order(c, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
            VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
      CHECK(vkEndCommandBuffer(c));
      VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
      submit.commandBufferCount = 1;
      submit.pCommandBuffers = &c;
      CHECK(vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE));
      CHECK(vkQueueWaitIdle(queue));
      uint64_t ticks[2];
      CHECK(vkGetQueryPoolResults(device, times, 0, 2, sizeof ticks, ticks, sizeof ticks[0],
                                  VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
      found = std::min(found, double(ticks[1] - ticks[0]) * period / count);
      right = right && seen[0] == expected;
      CHECK(vkResetCommandPool(device, pool, 0));
    }
    std::printf("%s\t%.1f\t%s\n", name.c_str(), found, right ? "yes" : "no");
    std::fflush(stdout);
  }

  // Times a chain of dispatches with something behind each of them.
  void chain(const std::string& name, const std::function<void(Commands)>& between) {
    time(name, uint32_t(count), [&](Commands c) {
      begin(c, least);
      for (int i = 0; i < count; ++i) {
        vkCmdDispatch(c, 1, 1, 1);
        between(c);
      }
    });
  }

  void all(const std::vector<uint32_t>& cubes) {
    const auto memory = [](Commands c) { order(c, kCompute, kWrite, kCompute, kRead | kWrite); };
    chain("nothing", [](Commands) {});
    chain("execution barrier", [](Commands c) {
      vkCmdPipelineBarrier(c, kCompute, kCompute, 0, 0, nullptr, 0, nullptr, 0, nullptr);
    });
    chain("memory barrier", memory);
    chain("buffer barrier, stages of wgpu", [&](Commands c) {
      VkBufferMemoryBarrier one{VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER};
      one.srcAccessMask = one.dstAccessMask = kRead | kWrite;
      one.srcQueueFamilyIndex = one.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
      one.buffer = buffers[0];
      one.size = VK_WHOLE_SIZE;
      const VkPipelineStageFlags shaders = kCompute | VK_PIPELINE_STAGE_VERTEX_SHADER_BIT |
                                           VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT;
      vkCmdPipelineBarrier(c, shaders | VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT,
                           shaders | VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 0, nullptr, 1, &one, 0,
                           nullptr);
    });
    chain("memory barrier, push constants", [&](Commands c) {
      uint32_t number = 1;
      memory(c);
      vkCmdPushConstants(c, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4, &number);
    });
    chain("memory barrier, set and pipeline", [&](Commands c) {
      memory(c);
      begin(c, least);
    });
    for (int chains : {2, kChains})
      time("memory barrier for " + std::to_string(chains), uint32_t(count / chains),
           [&](Commands c) {
             for (int i = 0; i < count / chains; ++i) {
               for (int k = 0; k < chains; ++k) {
                 begin(c, least, k);
                 vkCmdDispatch(c, 1, 1, 1);
               }
               memory(c);
             }
           });
    for (uint32_t many : cubes) {
      time("nothing, awaited by a counter, cubes " + std::to_string(many), uint32_t(count),
           [&](Commands c) {
             begin(c, waits);
             for (int i = 0; i < count; ++i) dispatch(c, uint32_t(i), many);
           });
      time("one dispatch, cubes that await each other " + std::to_string(many), uint32_t(count),
           [&](Commands c) {
             begin(c, stays);
             dispatch(c, uint32_t(count), many);
           });
    }
  }
};

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  void* library = dlopen("libvulkan.so.1", RTLD_NOW);
  if (!library) {
    std::fprintf(stderr, "there is no Vulkan loader: %s\n", dlerror());
    return 1;
  }
  const auto get = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
  const auto create = (PFN_vkCreateInstance)get(nullptr, "vkCreateInstance");
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  VkInstance instance;
  CHECK(create(&info, nullptr, &instance));
#define GET(name) vk##name = (PFN_vk##name)get(instance, "vk" #name);
  OF_INSTANCE(GET)
  uint32_t many = 0;
  CHECK(vkEnumeratePhysicalDevices(instance, &many, nullptr));
  std::vector<VkPhysicalDevice> devices(many);
  CHECK(vkEnumeratePhysicalDevices(instance, &many, devices.data()));
  for (VkPhysicalDevice one : devices) {
    VkPhysicalDeviceProperties about;
    vkGetPhysicalDeviceProperties(one, &about);
    if (!std::strstr(about.deviceName, argv[1])) continue;
    uint32_t families = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(one, &families, nullptr);
    std::vector<VkQueueFamilyProperties> has(families);
    vkGetPhysicalDeviceQueueFamilyProperties(one, &families, has.data());
    const VkQueueFlags wanted = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
    for (uint32_t family = 0; family < families; ++family) {
      if ((has[family].queueFlags & wanted) != wanted) continue;
      Bench bench;
      bench.period = about.limits.timestampPeriod;
      bench.count = std::atoi(argv[2]) / kChains * kChains;
      bench.runs = std::atoi(argv[3]);
      std::printf("%s\n", about.deviceName);
      bench.open(one, family);
      std::vector<uint32_t> cubes;
      for (int i = 4; i < argc; ++i) cubes.push_back(uint32_t(std::atoi(argv[i])));
      bench.all(cubes);
      return 0;
    }
  }
  std::fprintf(stderr, "no device with graphics and compute has '%s' in its name\n", argv[1]);
  return 1;
}
